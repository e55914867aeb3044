// The command palette: a field and a list of everything that can be opened or done. The field keeps
// the focus; the list follows its keys.

import { html, live, nothing, repeat } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { PageElement } from "../core/element.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { attempt, notifyError } from "../core/toasts.js";
import { nameOfKey } from "../core/keys.js";
import { boardEntries, ownEntries, searchEntry } from "./entries.js";
import { markUsed, matching } from "./matching.js";

const PAGE = 8;

/** @typedef {ReturnType<typeof searchEntry>} Entry */

class Palette extends PageElement {
  static properties = {
    _isOpen: { state: true },
    _text: { state: true },
    _active: { state: true },
    _own: { state: true },
    _board: { state: true },
  };

  constructor() {
    super();
    this._isOpen = false;
    this._key = "";
    this._text = "";
    this._active = 0;
    /** @type {Entry[]} */
    this._own = [];
    /** Kept for the next time, until newer ones have come. @type {Entry[]} */
    this._board = [];
    /** @type {Entry[]} */
    this._shown = [];
  }

  get _dialog() {
    return /** @type {HTMLDialogElement} */ (this.querySelector("dialog"));
  }

  /** @param {string} key that opens and closes it */
  async open(key) {
    if (this._dialog?.open) return;
    this._key = key;
    this._own = ownEntries(key);
    this._text = "";
    this._active = 0;
    this._isOpen = true;
    this.performUpdate(); // at once: the field receives the letters that are typed directly after the key
    this._dialog.showModal();
    try {
      const board = await boardEntries();
      // What is chosen at this moment stays chosen.
      const chosen = this._shown[this._active]?.id;
      this._board = board;
      await this.updateComplete;
      if (this._active > 0) this._active = Math.max(0, this._shown.findIndex((each) => each.id === chosen));
    } catch (error) {
      notifyError(error); // pages and actions work without the sessions
    }
  }

  /** @param {InputEvent} event */
  async _typed(event) {
    this._text = /** @type {HTMLInputElement} */ (event.target).value;
    this._active = 0;
    await this.updateComplete;
    announce(t("palette.count", { n: this._shown.length }));
  }

  /** @param {KeyboardEvent} event */
  _pressed(event) {
    event.stopPropagation(); // the page's shortcuts rest
    const last = this._shown.length - 1;
    if (nameOfKey(event) === this._key) this._dialog.close();
    else if (event.isComposing) return;
    else if (event.key === "ArrowDown") this._active = this._active >= last ? 0 : this._active + 1;
    else if (event.key === "ArrowUp") this._active = this._active <= 0 ? last : this._active - 1;
    else if (event.key === "PageDown") this._active = Math.min(last, this._active + PAGE);
    else if (event.key === "PageUp") this._active = Math.max(0, this._active - PAGE);
    else if (event.key === "Enter") this._choose(this._shown[this._active]);
    else return;
    event.preventDefault();
  }

  /** @param {Entry | undefined} entry */
  _choose(entry) {
    if (!entry) return;
    this._dialog.close(); // the focus returns to the page before the entry may move it
    if (entry.id !== "search") markUsed(entry.id);
    void attempt(async () => entry.run());
  }

  /** @param {MouseEvent} event */
  _clicked(event) {
    if (event.target === this._dialog) this._dialog.close();
  }

  /** The event comes later than the closing: the dialog may be open again. */
  _closed() {
    this._isOpen = this._dialog.open;
  }

  willUpdate() {
    if (!this._isOpen) return;
    this._shown = matching([...this._board, ...this._own], this._text);
    if (this._text.trim()) this._shown.push(searchEntry(this._text.trim()));
  }

  updated() {
    if (this._isOpen) this.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  render() {
    return html`<dialog class="palette" aria-label=${t("palette.title")} @click=${this._clicked} @keydown=${this._pressed}
      @close=${this._closed}>${this._isOpen ? this._content() : nothing}</dialog>`;
  }

  _content() {
    const chosen = this._shown.length > 0 ? `palette-${this._active}` : nothing;
    return html`<div class="palette-field">
        ${icon("search")}
        <input type="text" role="combobox" autocomplete="off" autocapitalize="off" spellcheck="false" autofocus
          aria-label=${t("palette.title")} aria-autocomplete="list" aria-expanded="true" aria-controls="palette-list" aria-activedescendant=${chosen}
          placeholder=${t("palette.placeholder")} .value=${live(this._text)} @input=${this._typed}>
        <button type="button" class="icon-button" tabindex="-1" aria-label=${t("action.close")} @click=${() => this._dialog.close()}>${icon("x")}</button>
      </div>
      <ul id="palette-list" class="palette-list" role="listbox" aria-label=${t("palette.results")}>
        ${repeat(
          this._shown,
          (each) => each.id, // a click meets the entry that it was aimed at, even if the list changes meanwhile
          (each, index) => this._option(each, index),
        )}
      </ul>
      <p class="palette-foot quiet small">${t("palette.keys")}</p>`;
  }

  /** @param {Entry} entry @param {number} index */
  _option(entry, index) {
    return html`<li id="palette-${index}" class="palette-option" role="option" aria-selected=${index === this._active ? "true" : "false"}
      @mousedown=${(/** @type {Event} */ event) => event.preventDefault()} @click=${() => this._choose(entry)}>
      ${icon(entry.icon)}
      <span class="palette-label cut">${entry.label}</span>
      <span class="palette-detail quiet small cut">${entry.detail}</span>
      ${entry.key ? html`<kbd>${entry.key}</kbd>` : html`<span class="palette-kind quiet small">${t(entry.kind)}</span>`}
    </li>`;
  }
}

customElements.define("c-palette", Palette);
