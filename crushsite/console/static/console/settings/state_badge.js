// The state of a server as a colour, an icon and a word.

import { html } from "../vendor/lit.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";

/** @type {Record<string, [string, string, StringKey]>} */
const STATES = {
  connected: ["done", "circle-check", "settings.state.connected"],
  ready: ["done", "circle-check", "settings.state.connected"],
  starting: ["working", "loader-circle", "settings.state.starting"],
  error: ["wrong", "circle-alert", "settings.state.error"],
  "needs auth": ["waiting", "lock", "settings.state.needs_auth"],
  disabled: ["", "circle-slash", "settings.state.disabled"],
  stopped: ["", "circle-stop", "settings.state.stopped"],
  unstarted: ["", "circle", "settings.state.unstarted"],
};

/** @param {string} state */
export function stateBadge(state) {
  const [kind, name, label] = STATES[state] ?? ["", "circle", undefined];
  return html`<span class="badge ${kind}">${icon(name)}${label ? t(label) : state}</span>`;
}
