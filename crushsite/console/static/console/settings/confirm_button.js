// A button for what cannot be undone: the first press asks, the second one does it.

import { html, nothing } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { PageElement } from "../core/element.js";
import { t } from "../core/strings.js";

class ConfirmButton extends PageElement {
  static properties = { label: { attribute: false }, about: { attribute: false }, run: { attribute: false }, _isOpen: { state: true } };

  constructor() {
    super();
    this.label = "";
    /** What it is about: buttons of a list have the same label. */
    this.about = "";
    /** @type {() => void} */
    this.run = () => {};
    this._isOpen = false;
  }

  _press() {
    if (this._isOpen) this.run();
    else announce(t("settings.confirm", { action: this.label }));
    this._isOpen = !this._isOpen;
  }

  render() {
    const text = this._isOpen ? t("settings.confirm", { action: this.label }) : this.label;
    return html`<button type="button" class="button ${this._isOpen ? "danger" : ""}" aria-label=${this.about ? `${text} ${this.about}` : nothing}
      @click=${() => this._press()}
      @blur=${() => (this._isOpen = false)}
      @keydown=${(/** @type {KeyboardEvent} */ event) => {
        if (event.key === "Escape") this._isOpen = false;
      }}>${text}</button>`;
  }
}

customElements.define("c-confirm-button", ConfirmButton);
