// Results that are lists: matches, files, pages, to-do entries, answers. The server's texts are read
// leniently: a line that is not as expected is shown as it is.

import { html, nothing } from "../vendor/lit.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { link } from "../text/link.js";
import { visible } from "../text/visible.js";
import { objectsOf, textOf } from "./arguments.js";

const MOST = 300; // entries
const LONGEST = 400; // characters of one

/** @param {string} text */
const short = (text) => visible(text.slice(0, LONGEST));

/** Lines of files that match, or names: a list with the files as its heads. @param {string} content */
export function matches(content) {
  const lines = content.split("\n");
  return html`<ul class="matches" tabindex="0" aria-label=${t("tool.result")}>
    ${lines.slice(0, MOST).map((line) => {
      const match = /^ {2}Line (\d+): (.*)$/s.exec(line);
      if (match) return html`<li class="match"><span class="line-number">${match[1]}</span><code>${short(match[2] ?? "")}</code></li>`;
      if (line === "") return nothing;
      return html`<li class=${/^\S.*:$/.test(line) ? "match-file" : "match-name"}><code>${short(line)}</code></li>`;
    })}
    ${lines.length > MOST ? html`<li class="quiet">${t("tool.left_out", { n: lines.length - MOST })}</li>` : nothing}
  </ul>`;
}

/** Pages that a search found. @param {string} content */
export function pages(content) {
  const entries = content.split(/\n\n(?=\d+\. )/).slice(0, MOST);
  return html`<ol class="found-pages">
    ${entries.map((entry) => {
      const [title = "", address = "", ...words] = entry.split("\n").map((line) => line.trim());
      const name = title.replace(/^\d+\. /, "");
      if (!/^https?:/i.test(address)) return html`<li class="plain">${visible(entry)}</li>`;
      return html`<li>${link(address, short(name) || short(address))}<div class="quiet small cut">${short(address)}</div><div>${visible(words.join(" "))}</div></li>`;
    })}
  </ol>`;
}

/** @type {Record<string, {icon: string, words: StringKey}>} */
const TODO_STATES = {
  pending: { icon: "circle", words: "tool.todo_pending" },
  in_progress: { icon: "circle-dot", words: "tool.todo_in_progress" },
  completed: { icon: "circle-check", words: "tool.todo_completed" },
};

/** @param {Record<string, any>} values */
export function todoList(values) {
  const todos = objectsOf(values, "todos");
  if (todos.length === 0) return nothing;
  return html`<ul class="todos">
    ${todos.slice(0, MOST).map((todo) => {
      const status = textOf(todo, "status");
      const look = (Object.hasOwn(TODO_STATES, status) ? TODO_STATES[status] : undefined) ?? { icon: "circle", words: /** @type {StringKey} */ ("tool.todo_pending") };
      const text = (status === "in_progress" && textOf(todo, "active_form")) || textOf(todo, "content");
      return html`<li class="todo ${look.icon}">${icon(look.icon, t(look.words))}<span>${visible(text)}</span></li>`;
    })}
  </ul>`;
}

/** The questions of a call, with their choices. @param {Record<string, any>} values */
export function questions(values) {
  return html`<ol class="asked">
    ${objectsOf(values, "questions").map(
      (question) => html`<li>
        <p>${visible(textOf(question, "question"))}</p>
        ${textOf(question, "description") ? html`<p class="quiet">${visible(textOf(question, "description"))}</p>` : nothing}
        ${objectsOf(question, "choices").length > 0
          ? html`<ul>${objectsOf(question, "choices").map((choice) => html`<li>${visible(textOf(choice, "label"))}</li>`)}</ul>`
          : nothing}
      </li>`,
    )}
  </ol>`;
}

/** Arguments as a table. @param {Record<string, any>} values */
export function table(values) {
  const rows = Object.entries(values);
  if (rows.length === 0) return html`<p class="quiet small">${t("tool.no_arguments")}</p>`;
  return html`<table class="arguments">
    <tbody>
      ${rows.map(([name, value]) => html`<tr><th scope="row">${visible(name)}</th><td>${valueOf(value)}</td></tr>`)}
    </tbody>
  </table>`;
}

/** @param {unknown} value */
function valueOf(value) {
  if (typeof value !== "string") return html`<c-terminal .isPlain=${true} .text=${JSON.stringify(value, null, 2) ?? ""} .label=${t("tool.arguments")}></c-terminal>`;
  if (value.length > 200 || value.includes("\n")) return html`<c-terminal .isPlain=${true} .text=${value} .label=${t("tool.arguments")}></c-terminal>`;
  return html`<span class="plain">${visible(value)}</span>`;
}
