// The states of a session for people: each has a word, an icon and a colour.

import { html } from "../vendor/lit.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";

/** @type {Record<string, {icon: string, tone: string, label: StringKey}>} */
const STATES = {
  working: { icon: "loader-circle", tone: "working", label: "state.working" },
  waiting: { icon: "hand", tone: "waiting", label: "state.waiting" },
  queued: { icon: "hourglass", tone: "working", label: "state.queued" },
  failed: { icon: "circle-x", tone: "wrong", label: "state.failed" },
  over_budget: { icon: "coins", tone: "wrong", label: "state.over_budget" },
  interrupted: { icon: "circle-alert", tone: "wrong", label: "state.interrupted" },
  done: { icon: "circle-check", tone: "done", label: "state.done" },
  idle: { icon: "circle", tone: "", label: "state.idle" },
};

/** @param {string} state */
export const stateBadge = (state) => {
  const { icon: name, tone, label } = STATES[state] ?? { icon: "circle", tone: "", label: /** @type {StringKey} */ ("state.idle") };
  return html`<span class="badge ${tone}">${icon(name)}${t(label)}</span>`;
};

/** How a board's sessions are sorted by what they need: those that wait for a person come first. @type {string[]} */
const ORDER = ["waiting", "working", "queued", "failed", "over_budget", "interrupted"];

/** @param {{state: string, updated_at: number}} one @param {{state: string, updated_at: number}} other */
export function byNeed(one, other) {
  const rank = (/** @type {{state: string}} */ each) => (ORDER.includes(each.state) ? ORDER.indexOf(each.state) : ORDER.length);
  return rank(one) - rank(other) || other.updated_at - one.updated_at;
}
