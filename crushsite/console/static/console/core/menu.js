// A button that opens a menu of actions, for every room:
//     <c-menu .label=${"More"} .icon=${"ellipsis"} .items=${[{label, icon, run}, {label, href}]}></c-menu>
// Arrows, Home, End and first letters choose; Enter or Space acts; Escape closes and returns to the button.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "./element.js";
import { icon } from "./icons.js";

/**
 * @typedef {object} MenuItem
 * @property {string} label
 * @property {string} [icon]
 * @property {() => unknown} [run]
 * @property {string} [href] a link in place of an action
 * @property {string} [download] the link's file name
 * @property {boolean} [isDanger]
 * @property {boolean} [isDisabled]
 * @property {boolean} [isChecked] given: the item is a choice
 */

const EDGE = 8; // pixels to the window's edge

class Menu extends PageElement {
  static properties = {
    label: { attribute: false },
    icon: { attribute: false },
    text: { attribute: false },
    items: { attribute: false },
    _isOpen: { state: true },
  };

  constructor() {
    super();
    this.label = "";
    this.icon = "ellipsis";
    /** Shown beside the icon; without it the label is for screen readers alone. */
    this.text = "";
    /** @type {MenuItem[]} */
    this.items = [];
    this._isOpen = false;
  }

  firstUpdated() {
    // The browser closes a popover when something else is pressed, but not for its own button.
    this._button.popoverTargetElement = this._list;
  }

  get _button() {
    return /** @type {HTMLButtonElement} */ (this.querySelector(".menu-button"));
  }

  get _list() {
    return /** @type {HTMLElement} */ (this.querySelector(".menu"));
  }

  /** @returns {HTMLElement[]} */
  get _entries() {
    return [...this._list.querySelectorAll(/** @type {"a"} */ ("[role^=menuitem]:not([aria-disabled=true])"))];
  }

  /** @param {any} event */
  async _toggled(event) {
    this._isOpen = event.newState === "open";
    if (!this._isOpen || this._list.contains(document.activeElement)) return;
    await this.updateComplete;
    this._place();
    this._focus(0);
  }

  /** Below the button, or above it where there is more room. */
  _place() {
    const button = this._button.getBoundingClientRect();
    const list = this._list.getBoundingClientRect();
    const isAbove = button.bottom + list.height + EDGE > innerHeight && button.top > innerHeight - button.bottom;
    const top = isAbove ? button.top - list.height - 4 : button.bottom + 4;
    const left = Math.min(button.right - list.width, innerWidth - list.width - EDGE);
    this._list.style.top = `${Math.max(EDGE, top)}px`;
    this._list.style.left = `${Math.max(EDGE, left)}px`;
  }

  /** @param {number} index */
  _focus(index) {
    const entries = this._entries;
    entries[(index + entries.length) % entries.length]?.focus();
  }

  _close() {
    this._list.hidePopover();
    this._button.focus();
  }

  /** @param {KeyboardEvent} event */
  _buttonKey(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    // At once, not when the browser notifies of the open list: the next key may follow quickly.
    this._isOpen = true;
    this.performUpdate();
    this._list.showPopover();
    this._place();
    this._focus(event.key === "ArrowDown" ? 0 : -1);
  }

  /** @param {KeyboardEvent} event */
  _listKey(event) {
    const entries = this._entries;
    const at = entries.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 };
    const next = /** @type {Record<string, number>} */ (steps)[event.key];
    if (next !== undefined) this._focus(next);
    else if (event.key === "Escape") this._close();
    else if (event.key === "Tab") {
      this._list.hidePopover();
      return;
    } else if (event.key === " " || event.key === "Enter") entries[at]?.click();
    else if (event.key.length === 1 && !event.ctrlKey && !event.metaKey) {
      const letter = event.key.toLowerCase();
      const ordered = [...entries.slice(at + 1), ...entries.slice(0, at + 1)];
      ordered.find((entry) => entry.textContent?.trim().toLowerCase().startsWith(letter))?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {MenuItem} item */
  _choose(item) {
    if (item.isDisabled) return;
    this._close();
    void item.run?.();
  }

  render() {
    return html`<button type="button" class=${this.text ? "button menu-button" : "icon-button menu-button"} aria-haspopup="menu"
        aria-expanded=${this._isOpen ? "true" : "false"} aria-label=${this.label || nothing} title=${this.text ? nothing : this.label} @keydown=${this._buttonKey}>
        ${icon(this.icon)}${this.text ? html`<span>${this.text}</span>` : nothing}
      </button>
      <div class="menu" popover="auto" role="menu" aria-label=${this.label} @toggle=${this._toggled} @keydown=${this._listKey}>
        ${this._isOpen ? this.items.map((item) => this._item(item)) : nothing}
      </div>`;
  }

  /** @param {MenuItem} item */
  _item(item) {
    const content = html`${item.isChecked !== undefined ? icon(item.isChecked ? "check" : "circle") : item.icon ? icon(item.icon) : nothing}<span>${item.label}</span>`;
    if (item.href && !item.isDisabled) {
      return html`<a class="menu-item" role="menuitem" tabindex="-1" href=${item.href} download=${item.download ?? nothing}
        @click=${() => this._list.hidePopover()}>${content}</a>`;
    }
    return html`<button type="button" class=${item.isDanger ? "menu-item wrong" : "menu-item"} tabindex="-1"
      role=${item.isChecked === undefined ? "menuitem" : "menuitemradio"} aria-checked=${item.isChecked === undefined ? nothing : String(item.isChecked)}
      aria-disabled=${item.isDisabled ? "true" : nothing} @click=${() => this._choose(item)}>${content}</button>`;
  }
}

customElements.define("c-menu", Menu);
