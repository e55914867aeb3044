// What stands below a message that did not end as expected: why, and what to do.

import { html, nothing } from "../vendor/lit.js";
import { at, post } from "../core/api.js";
import { count, duration, money } from "../core/format.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { visible } from "../text/visible.js";
import "../tools/elapsed.js";
import { runsOf } from "./run_index.js";

/** What helps, by the server's sentences (agents/llm/errors.py). @type {[RegExp, StringKey, string][]} */
const HELP = [
  [/api.?key|credential|unauthori[sz]ed|sign in|log ?in/i, "error.help_key", "/settings/models"],
  [/no credit|quota/i, "error.help_quota", "/settings/models"],
  [/no model|model id|cannot be used|not support this type|not installed|no provider|not configured/i, "error.help_model", "/settings/models"],
  [/overloaded|limits the rate|cannot be reached|sent nothing|before it was complete/i, "error.help_later", ""],
  [/context window/i, "error.help_window", ""],
];

const SHORT = 300; // characters of details that are shown at once

/** @type {Record<string, (amount: number) => string>} */
const AMOUNTS = { cost: money, tokens: count, steps: count, seconds: duration };

/** @type {Record<string, StringKey>} */
const LIMITS = { cost: "budget.cost", tokens: "budget.tokens", steps: "budget.steps", seconds: "budget.seconds" };

/** @param {SessionFeed} feed @param {OpenMessage} message @param {OpenPart} part */
export function finishNote(feed, message, part) {
  const { reason = "", message: text = "", details = "" } = part.data;
  const run = message.head.role === "assistant" ? runsOf(feed).ofMessage(message.id) : undefined;
  if (run?.["outcome"] === "over_budget") return overBudget(feed, run, text);
  switch (reason) {
    case "canceled":
      return note("circle-slash", "", run?.["cancelled_by"]?.name ? t("error.cancelled_by", { name: visible(run["cancelled_by"].name) }) : t("error.cancelled"), retryButton(feed, run));
    case "error":
      return failed(feed, run, String(text), String(details));
    case "max_tokens":
      return note("triangle-alert", "waiting", t("error.max_tokens"), nothing);
    case "content_filter":
      return note("triangle-alert", "waiting", text ? visible(text) : t("error.content_filter"), nothing);
    default:
      return text ? note("info", "", visible(text), nothing) : nothing;
  }
}

/** @param {string} sign @param {string} tone @param {unknown} text @param {unknown} actions */
const note = (sign, tone, text, actions) =>
  html`<div class="note ${tone}">${icon(sign)}<div class="note-text"><div>${text}</div>${actions}</div></div>`;

/** @param {SessionFeed} feed @param {Record<string, any> | undefined} run @param {string} text @param {string} details */
function failed(feed, run, text, details) {
  const help = HELP.find(([pattern]) => pattern.test(`${text} ${details}`));
  const actions = html`
    ${details && details.length <= SHORT ? html`<div class="plain small">${visible(details)}</div>` : nothing}
    ${details.length > SHORT ? html`<details><summary>${t("error.details")}</summary><div class="plain">${visible(details)}</div></details>` : nothing}
    ${help ? html`<p class="quiet small">${t(help[1])}</p>` : nothing}
    <div class="note-actions">
      ${retryButton(feed, run)}${help?.[2] ? html`<a class="button" href=${help[2]}>${t("error.to_settings")}</a>` : nothing}
    </div>`;
  return note("circle-alert", "wrong", html`<strong>${t("error.failed")}</strong> ${visible(text)}`, actions);
}

/** @param {SessionFeed} feed @param {Record<string, any>} run @param {unknown} text */
function overBudget(feed, run, text) {
  const { limits = {}, reached = {}, exceeded = [] } = run["budget"] ?? {};
  const amounts = exceeded
    .filter((/** @type {string} */ name) => Object.hasOwn(LIMITS, name))
    .map((/** @type {string} */ name) => t(LIMITS[name] ?? "budget.cost", { reached: AMOUNTS[name]?.(reached[name] ?? 0) ?? "", limit: AMOUNTS[name]?.(limits[name] ?? 0) ?? "" }));
  return note("coins", "waiting", html`<strong>${t("error.over_budget")}</strong> ${amounts.length ? amounts.join(", ") : visible(String(text))}`, retryButton(feed, run));
}

/** @param {SessionFeed} feed @param {Record<string, any> | undefined} run */
function retryButton(feed, run) {
  if (!run || run["outcome"] === "completed" || runsOf(feed).isRetried(run["key"])) return nothing;
  const retry = () => attempt(() => post(at`workspaces/${feed.workspaceId}/runs/${run["key"]}/retry`));
  return html`<button class="button" @click=${retry}>${icon("rotate-ccw")}${t("error.retry_run")}</button>`;
}

/** When an attempt was first shown, by its event's data. @type {WeakMap<object, number>} */
const seen = new WeakMap();

/** An attempt to reach the model has failed, and another one follows. @param {Record<string, any> | undefined} retry @param {boolean} isOver text has come again */
export function retryNote(retry, isOver) {
  if (!retry || isOver) return nothing;
  const since = seen.get(retry) ?? Date.now() / 1000;
  seen.set(retry, since);
  const { attempt: number = 0, attempts = 0, delay_seconds: delay = 0, reason = "" } = retry;
  const text = html`<strong>${t("retry.attempt", { number, attempts })}</strong> ${visible(String(reason))}`;
  return note("refresh-cw", "waiting", text, html`<div class="quiet small">${t("retry.next")} <c-elapsed .until=${since + Number(delay)}></c-elapsed></div>`);
}
