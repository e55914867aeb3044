// All shortcuts that work on the page now.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { icon } from "../core/icons.js";
import { hasLetterKeys, knownKeys, shownKey } from "../core/keys.js";
import { t } from "../core/strings.js";

/** @type {[string[], StringKey][]} */
const IN_LISTS = [
  [["↑", "↓"], "keys.choose"],
  [["Home", "End"], "keys.ends"],
  [["↵"], "keys.act"],
  [["Escape"], "keys.close"],
  [["Tab"], "keys.next"],
];

class KeyHelp extends PageElement {
  static properties = { _isOpen: { state: true } };

  constructor() {
    super();
    this._isOpen = false;
  }

  get _dialog() {
    return /** @type {HTMLDialogElement} */ (this.querySelector("dialog"));
  }

  open() {
    // The shortcuts of this moment; behind a dialog others would work.
    this._isOpen = true;
    this.performUpdate();
    if (!this._dialog.open) this._dialog.showModal();
  }

  /** @param {MouseEvent} event */
  _clicked(event) {
    if (event.target === this._dialog) this._dialog.close();
  }

  render() {
    return html`<dialog class="key-help" aria-labelledby="key-help-title" @click=${this._clicked}
      @keydown=${(/** @type {Event} */ event) => event.stopPropagation()} @close=${() => (this._isOpen = this._dialog.open)}>
      ${this._isOpen ? this._content() : nothing}
    </dialog>`;
  }

  _content() {
    // The page that registered last has a key; the frame's own come last.
    const shortcuts = new Map([...knownKeys()].reverse().map((each) => [each.key, each.label]));
    return html`<header class="dialog-head">
        <h2 id="key-help-title">${t("keys.title")}</h2>
        <button type="button" class="icon-button" aria-label=${t("action.close")} @click=${() => this._dialog.close()}>${icon("x")}</button>
      </header>
      <h3>${t("keys.everywhere")}</h3>
      <dl class="keys">${[...shortcuts].map(([key, label]) => this._row(shownKey(key).split("+"), label))}</dl>
      <h3>${t("keys.lists")}</h3>
      <dl class="keys">${IN_LISTS.map(([keys, label]) => this._row(keys, t(label)))}</dl>
      <p class="small quiet">${t(hasLetterKeys() ? "keys.letters_on" : "keys.letters_off")}
        <a href="/settings/appearance" @click=${() => this._dialog.close()}>${t("nav.settings")}</a></p>`;
  }

  /** @param {string[]} keys @param {string} label */
  _row(keys, label) {
    return html`<div><dt>${keys.map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${label}</dd></div>`;
  }
}

customElements.define("c-key-help", KeyHelp);
