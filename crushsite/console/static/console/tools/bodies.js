// What an open call shows, for each kind of tool.

import { html, nothing } from "../vendor/lit.js";
import { t } from "../core/strings.js";
import { visible } from "../text/visible.js";
import { link } from "../text/link.js";
import "../text/markdown.js";
import { objectsOf, readArguments, textOf } from "./arguments.js";
import "./child_session.js";
import "./code_view.js";
import "./file_change.js";
import { isPicture } from "./picture.js";
import { matches, pages, questions, table, todoList } from "./results.js";
import "./terminal.js";

/** @typedef {{feed: SessionFeed, call: Call, values: Record<string, any>, isWhole: boolean}} Open */

/** @type {Record<string, (open: Open) => unknown>} */
const BODIES = { terminal, job, change, file, list, page, pages: found, agent, todos, question, plain };

/** @param {SessionFeed} feed @param {Call} call @param {string} kind */
export function bodyOf(feed, call, kind) {
  const { values, isWhole } = readArguments(call.text);
  const open = { feed, call, values, isWhole };
  return html`${(BODIES[kind] ?? plain)(open)}${malformed(open)}${image(call)}`;
}

/** What the model wrote in place of arguments, when it will write no more. @param {Open} open */
function malformed({ call, isWhole }) {
  if (isWhole || call.state === "writing" || call.text === "") return nothing;
  return html`<p class="small">${t("tool.malformed")}</p><c-terminal .isPlain=${true} .text=${call.text} .label=${t("tool.arguments")}></c-terminal>`;
}

/** @param {Call} call */
function image(call) {
  const { data = "", mime_type: type = "" } = call.result ?? {};
  return data && isPicture(type) ? html`<c-picture .data=${data} .type=${type} .label=${t("tool.image")}></c-picture>` : nothing;
}

/** The result as it is. @param {Call} call */
function result(call) {
  if (!call.isOver) return nothing;
  return call.content === "" ? nothing : html`<c-terminal .isPlain=${true} .text=${call.content} .label=${t("tool.result")}></c-terminal>`;
}

/** A result that only says what went wrong. @param {Call} call */
const failure = (call) => (call.result?.["is_error"] ? html`<p class="tool-error plain">${visible(call.content)}</p>` : nothing);

/** @param {string} command */
const commandLine = (command) => html`<pre class="command" tabindex="0" aria-label=${t("tool.bash")}><span class="prompt-sign" aria-hidden="true">$ </span>${visible(command)}</pre>`;

/** @param {Open} open */
function terminal({ call, values }) {
  const shown = call.isOver ? call.content : call.output;
  const empty = call.isOver || call.state !== "running" ? nothing : html`<p class="quiet small">${t("tool.no_output")}</p>`;
  return html`${textOf(values, "description") ? html`<p class="quiet small">${visible(textOf(values, "description"))}</p>` : nothing}
    ${commandLine(textOf(values, "command"))}
    ${shown ? html`<c-terminal .text=${shown} .fromEnd=${true}></c-terminal>` : empty}`;
}

/** @param {Open} open */
function job({ call, values }) {
  const command = call.metadata["command"];
  return html`${typeof command === "string" ? commandLine(command) : table(values)}${call.isOver ? html`<c-terminal .text=${call.content} .fromEnd=${true}></c-terminal>` : nothing}`;
}

/** A change of a file: as it was carried out or denied, or as it is proposed. @param {Open} open */
function change({ call, values }) {
  const path = textOf(values, "file_path") || String(call.metadata["file_path"] ?? "");
  const { diff, old_content: before, new_content: after } = call.metadata;
  const head = html`${failure(call)}${path ? html`<p class="mono small path">${visible(path)}</p>` : nothing}`;
  const notes = html`${failedEdits(call)}${diagnostics(call)}`;
  if (typeof diff === "string" && diff) return html`${head}<c-file-change .patch=${diff} .path=${path}></c-file-change>${notes}`;
  if (typeof before === "string" && typeof after === "string") {
    return html`${head}<c-file-change .oldText=${before} .newText=${after} .path=${path}></c-file-change>${notes}`;
  }
  const edits = "edits" in values ? objectsOf(values, "edits") : "old_string" in values ? [values] : [];
  if (edits.length > 0) {
    return html`${head}${edits.map((edit) => html`<c-file-change .oldText=${textOf(edit, "old_string")} .newText=${textOf(edit, "new_string")} .path=${path}></c-file-change>`)}`;
  }
  const content = textOf(values, "content") || textOf(values, "replacement");
  if (!content) return html`${head}${call.isOver && !call.result?.["is_error"] ? result(call) : nothing}`;
  return html`${head}<c-code-view .text=${content} .path=${path} .isOpen=${call.state === "writing"}></c-code-view>`;
}

/** @param {Call} call */
function failedEdits(call) {
  const failed = objectsOf(call.metadata, "edits_failed");
  if (failed.length === 0) return nothing;
  return html`<p class="tool-error">${t("tool.failed_edits", { n: failed.length })}</p>
    <ul>${failed.map((each) => html`<li>${visible(textOf(each, "error"))}</li>`)}</ul>`;
}

/** What language servers report is below the first line. @param {Call} call */
function diagnostics(call) {
  const rest = call.result?.["is_error"] ? "" : call.content.split("\n").slice(1).join("\n").trim();
  return rest ? html`<c-terminal .isPlain=${true} .text=${rest} .label=${t("tool.result")}></c-terminal>` : nothing;
}

/** @param {Open} open */
function file({ call, values }) {
  const content = call.metadata["content"];
  const path = String(call.metadata["file_path"] ?? textOf(values, "file_path"));
  if (call.result?.["is_error"] || typeof content !== "string") return html`${failure(call)}${call.isOver ? nothing : table(values)}`;
  const head = html`<p class="mono small path">${visible(path)}</p>`;
  if (call.result?.["data"]) return html`${head}<p class="quiet small">${visible(call.content)}</p>`;
  if (content === "") return html`${head}<p class="quiet small">${t("tool.empty_file")}</p>`;
  const first = Number.isInteger(values["offset"]) ? values["offset"] + 1 : 1;
  const more = /\n\n(\([^\n]*\))$/.exec(call.content)?.[1];
  return html`${head}<c-code-view .text=${content} .path=${path} .first=${first}></c-code-view>${more ? html`<p class="quiet small">${visible(more)}</p>` : nothing}`;
}

/** @param {Open} open */
function list({ call, values }) {
  if (call.result?.["is_error"]) return html`${table(values)}${failure(call)}`;
  return html`${table(values)}${call.isOver ? matches(call.content) : nothing}`;
}

/** @param {Open} open */
function page({ call, values }) {
  const address = textOf(values, "url");
  const head = address ? html`<p class="small path">${link(address, visible(address))}</p>` : table(values);
  if (!call.isOver || call.result?.["is_error"]) return html`${head}${failure(call)}`;
  const isMarkdown = values["format"] === "markdown" && call.content.length < 100_000;
  return html`${head}${isMarkdown ? html`<div class="page-text" tabindex="0" role="group" aria-label=${t("tool.result")}><c-markdown .text=${call.content}></c-markdown></div>` : result(call)}`;
}

/** @param {Open} open */
function found({ call, values }) {
  return html`${table(values)}${call.isOver && !call.result?.["is_error"] ? pages(call.content) : failure(call)}`;
}

/** @param {Open} open */
function agent({ feed, call, values }) {
  return html`<p class="tool-label">${t("tool.task")}</p>
    <div class="plain agent-task">${visible(textOf(values, "prompt"))}</div>
    <c-child-session .feed=${feed} .sessionId=${`${call.message.id}$$${call.id}`} .isOver=${call.isOver}></c-child-session>
    ${call.isOver && !call.result?.["is_error"] ? html`<p class="tool-label">${t("tool.answer")}</p><c-markdown .text=${call.content}></c-markdown>` : failure(call)}`;
}

/** @param {Open} open */
function todos({ call, values }) {
  return html`${todoList(objectsOf(call.metadata, "todos").length > 0 ? call.metadata : values)}${failure(call)}`;
}

/** @param {Open} open */
function question({ call, values }) {
  if (call.result?.["is_error"] || !call.isOver) return html`${questions(values)}${failure(call)}`;
  return html`<div class="plain">${visible(call.content)}</div>`;
}

/** @param {Open} open */
function plain({ call, values }) {
  return html`<p class="tool-label">${t("tool.arguments")}</p>
    ${table(values)}
    ${call.isOver ? html`<p class="tool-label">${t("tool.result")}</p>${result(call)}` : nothing}`;
}
