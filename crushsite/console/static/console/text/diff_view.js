// A diff: one below the other or side by side, with the words that changed within a line.
//     <c-diff .diff=${unified} .path=${path} .mode=${"inline"}></c-diff>
// With `.canPick`, lines have a button: `line-picked` has `{path, line}`. `.below(line)` may return
// content for a row below a line.

import { html, nothing, repeat } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { t } from "../core/strings.js";
import { hunksOf, pairsOf } from "./diff_lines.js";

const MOST_LINES = 1500; // more take longer than a person waits; a button shows them
const LONGEST_WORDS = 600; // characters of a line whose words are compared
const MOST_PAIRS = 400;
const NARROW = matchMedia("(max-width: 48rem)");
const SIGNS = { same: " ", added: "+", removed: "−", note: " " };

/** @typedef {{text: string, isChanged: boolean}} Word */

/** @type {Promise<any> | null} */
let loading = null;

class Diff extends PageElement {
  static properties = {
    diff: { attribute: false },
    path: { attribute: false },
    mode: { attribute: false },
    canPick: { attribute: false },
    below: { attribute: false },
    _most: { state: true },
  };

  constructor() {
    super();
    this.diff = "";
    this.path = "";
    /** @type {"inline" | "split"} */
    this.mode = "inline";
    this.canPick = false;
    /** @type {((line: DiffLine) => unknown) | null} */
    this.below = null;
    this._most = MOST_LINES;
    /** @type {Hunk[]} */
    this._hunks = [];
    /** The words of changed lines, by the line's index. @type {Map<number, Word[]>} */
    this._words = new Map();
    this._resized = () => this.requestUpdate();
  }

  connectedCallback() {
    super.connectedCallback();
    NARROW.addEventListener("change", this._resized);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    NARROW.removeEventListener("change", this._resized);
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (!changed.has("diff")) return;
    this._hunks = hunksOf(this.diff);
    this._words = new Map();
    void this._compare(this._hunks);
  }

  /** Finds the words that differ, after the lines are shown. @param {Hunk[]} hunks */
  async _compare(hunks) {
    const pairs = hunks
      .flatMap((hunk) => pairsOf(hunk.lines))
      .filter(({ left, right }) => left !== right && left && right && left.text.length + right.text.length < LONGEST_WORDS);
    if (pairs.length === 0) return;
    loading ??= import("../vendor/diff.js");
    const { diffWordsWithSpace } = await loading;
    if (hunks !== this._hunks) return;
    for (const { left, right } of pairs.slice(0, MOST_PAIRS)) {
      if (!left || !right) continue;
      /** @type {{value: string, added?: boolean, removed?: boolean}[]} */
      const words = diffWordsWithSpace(left.text, right.text);
      // Where nearly everything differs, marks would say nothing.
      if (!words.some((word) => !word.added && !word.removed && /\w/.test(word.value))) continue;
      this._words.set(left.index, words.filter((word) => !word.added).map((word) => ({ text: word.value, isChanged: !!word.removed })));
      this._words.set(right.index, words.filter((word) => !word.removed).map((word) => ({ text: word.value, isChanged: !!word.added })));
    }
    this.requestUpdate();
  }

  render() {
    const isSplit = this.mode === "split" && !NARROW.matches;
    const total = this._hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
    if (total === 0) return html`<p class="quiet small">${t("diff.empty")}</p>`;
    let room = this._most;
    const shown = this._hunks.flatMap((hunk) => {
      if (room <= 0) return [];
      const lines = hunk.lines.slice(0, room);
      room -= lines.length;
      return [{ ...hunk, lines }];
    });
    return html`<div class="diff ${isSplit ? "split" : "inline"}" tabindex="0" role="group" aria-label=${t("diff.label", { path: this.path })}
        @keydown=${this._keyPressed}>
        <div class="diff-lines">${shown.map((hunk, at) => this._hunk(hunk, at, isSplit))}</div>
      </div>
      ${total > this._most
        ? html`<button type="button" class="link small" @click=${() => (this._most = total)}>${t("diff.show_all", { n: total - this._most })}</button>`
        : nothing}`;
  }

  /** @param {Hunk} hunk @param {number} at @param {boolean} isSplit */
  _hunk(hunk, at, isSplit) {
    const head = at === 0 && !hunk.header ? nothing : html`<div class="diff-hunk" aria-hidden="true">⋯ ${hunk.header}</div>`;
    if (!isSplit) return html`${head}${repeat(hunk.lines, (line) => line.index, (line) => this._line(line))}`;
    return html`${head}${pairsOf(hunk.lines).map((pair) => this._pair(pair))}`;
  }

  /** @param {DiffLine} line */
  _line(line) {
    if (line.kind === "note") return html`<div class="diff-note quiet">${line.text.trim()}</div>`;
    return html`<div class="diff-line ${line.kind}">
        ${this._number(line, line.old)}<span class="diff-number" aria-hidden="true">${line.new || ""}</span>${this._text(line)}
      </div>
      ${this._below(line)}`;
  }

  /** @param {DiffPair} pair */
  _pair({ left, right }) {
    const isSame = left === right;
    return html`<div class="diff-pair">
        ${left ? html`<div class="diff-line ${left.kind}">${this._number(left, left.old, isSame)}${this._text(left)}</div>` : html`<div class="diff-line none"></div>`}
        ${right ? html`<div class="diff-line ${right.kind}">${this._number(right, right.new)}${this._text(right)}</div>` : html`<div class="diff-line none"></div>`}
      </div>
      ${left && !isSame ? this._below(left) : nothing}${right ? this._below(right) : nothing}`;
  }

  /** @param {DiffLine} line @param {number} number @param {boolean} [isPlain] */
  _number(line, number, isPlain = false) {
    if (!this.canPick || isPlain) return html`<span class="diff-number" aria-hidden="true">${number || ""}</span>`;
    const label = t(line.kind === "removed" ? "diff.pick_removed" : "diff.pick", { line: line.new || line.old });
    return html`<button type="button" class="diff-number diff-pick" tabindex=${line.index === 0 ? "0" : "-1"} aria-label=${label} title=${label}
      @click=${() => this.emit("line-picked", { path: this.path, line })}>${number || ""}</button>`;
  }

  /** @param {DiffLine} line */
  _text(line) {
    const words = this._words.get(line.index);
    const spoken = line.kind === "added" ? t("diff.added") : line.kind === "removed" ? t("diff.removed") : "";
    return html`<span class="diff-sign" aria-hidden="true">${SIGNS[line.kind]}</span
      >${spoken ? html`<span class="hidden-text">${spoken} </span>` : nothing}<span class="diff-text"
      >${words ? words.map((word) => (word.isChanged ? html`<mark>${word.text}</mark>` : word.text)) : line.text || " "}</span>`;
  }

  /** @param {DiffLine} line */
  _below(line) {
    const content = this.below?.(line) ?? nothing;
    return content === nothing ? nothing : html`<div class="diff-below">${content}</div>`;
  }

  /** Up and down go through the lines' buttons: only one of them is a stop of Tab. @param {KeyboardEvent} event */
  _keyPressed(event) {
    const from = event.target instanceof Element ? event.target.closest(".diff-pick") : null;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!from || step === undefined) return;
    const all = /** @type {HTMLElement[]} */ ([...this.querySelectorAll(".diff-pick")]);
    const next = all[all.indexOf(/** @type {HTMLElement} */ (from)) + step];
    if (!next) return;
    event.preventDefault();
    for (const each of all) each.tabIndex = each === next ? 0 : -1;
    next.focus();
  }
}

customElements.define("c-diff", Diff);
