// What a call changes in a file: its diff, made here where the server sends two versions.

import { html } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { t } from "../core/strings.js";
import "../text/diff_view.js";
import { visible } from "../text/visible.js";

const KEY = "crush-diff-view";
const MOST_COMPARED = 1_000_000; // characters of a text whose lines are compared
const MOST_MILLISECONDS = 400; // for the comparison
const CONTEXT = 3;

/** All that are shown: a choice of the view counts for each of them. @type {Set<FileChange>} */
const shown = new Set();

/** @type {Promise<any> | null} */
let loading = null;

/** Properties: a unified diff as `patch`, or the versions `oldText` and `newText`; the `path` of the file. */
class FileChange extends PageElement {
  static properties = {
    patch: { attribute: false },
    oldText: { attribute: false },
    newText: { attribute: false },
    path: { attribute: false },
    _diff: { state: true },
  };

  constructor() {
    super();
    this.patch = "";
    this.oldText = "";
    this.newText = "";
    this.path = "";
    /** @type {string | null} */
    this._diff = null;
  }

  connectedCallback() {
    super.connectedCallback();
    shown.add(this);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    shown.delete(this);
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (["patch", "oldText", "newText"].some((name) => changed.has(name))) void this._compare();
  }

  async _compare() {
    if (this.patch) {
      this._diff = visible(this.patch);
      return;
    }
    loading ??= import("../vendor/diff.js");
    const { structuredPatch } = await loading;
    this._diff = visible(unified(structuredPatch, this.oldText, this.newText));
  }

  render() {
    if (this._diff === null) return html`<p class="quiet small" role="status">${t("state.loading")}</p>`;
    const mode = localStorage.getItem(KEY) === "split" ? "split" : "inline";
    return html`<div class="diff-tools" role="group" aria-label=${t("diff.view")}>${this._choice("inline", mode)}${this._choice("split", mode)}</div>
      <c-diff .diff=${this._diff} .path=${visible(this.path)} .mode=${mode}></c-diff>`;
  }

  /** @param {"inline" | "split"} view @param {string} current */
  _choice(view, current) {
    return html`<button type="button" class="link small" aria-pressed=${view === current ? "true" : "false"} @click=${() => choose(view)}>${t(`diff.${view}`)}</button>`;
  }
}

/**
 * The unified diff of two texts; of texts that take too long to compare, by what they have in common
 * at the beginning and at the end.
 * @param {any} structuredPatch @param {string} before @param {string} after
 */
function unified(structuredPatch, before, after) {
  if (before.length + after.length <= MOST_COMPARED) {
    const patch = structuredPatch("", "", before, after, "", "", { context: CONTEXT, timeout: MOST_MILLISECONDS });
    if (patch) return patch.hunks.map((/** @type {any} */ hunk) => hunkText(hunk.oldStart, hunk.newStart, hunk.lines)).join("");
  }
  const left = linesOf(before);
  const right = linesOf(after);
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start++;
  let end = 0;
  while (end < left.length - start && end < right.length - start && left.at(-1 - end) === right.at(-1 - end)) end++;
  const from = Math.max(0, start - CONTEXT);
  return hunkText(from + 1, from + 1, [
    ...left.slice(from, start).map((line) => ` ${line}`),
    ...left.slice(start, left.length - end).map((line) => `-${line}`),
    ...right.slice(start, right.length - end).map((line) => `+${line}`),
    ...left.slice(left.length - end, left.length - end + CONTEXT).map((line) => ` ${line}`),
  ]);
}

/** @param {string} text */
const linesOf = (text) => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

/** @param {number} before @param {number} after @param {string[]} lines */
function hunkText(before, after, lines) {
  const old = lines.filter((line) => /^[ -]/.test(line)).length;
  const fresh = lines.filter((line) => /^[ +]/.test(line)).length;
  return old + fresh === 0 ? "" : `@@ -${before},${old} +${after},${fresh} @@\n${lines.join("\n")}\n`;
}

/** @param {"inline" | "split"} view */
function choose(view) {
  localStorage.setItem(KEY, view);
  for (const each of shown) each.requestUpdate();
}

customElements.define("c-file-change", FileChange);
