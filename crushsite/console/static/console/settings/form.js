// A form of the settings: labels, errors beside their fields, and a message when it is saved.

import { html, nothing } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { ApiError } from "../core/api.js";
import { notify } from "../core/toasts.js";
import { t } from "../core/strings.js";

/**
 * @typedef {{type?: string, value?: string, help?: string, required?: boolean, autocomplete?: string, min?: number, list?: string[]}} FieldOptions
 */

/** The state of a form. Its component renders the fields with it. */
export class Form {
  /** @param {PageElement} host @param {string} name unique on the page */
  constructor(host, name) {
    this.host = host;
    this.name = name;
    this.isBusy = false;
    this.message = "";
    /** @type {Map<string, string>} */
    this.errors = new Map();
  }

  /**
   * Sends the form's values. A refusal is shown beside the fields that it names, and gets the focus.
   * @param {Event} event
   * @param {(values: Record<string, string>) => Promise<unknown>} action
   * @param {string} [done] the message when it has succeeded
   */
  async submit(event, action, done) {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.currentTarget);
    if (this.isBusy) return;
    const values = Object.fromEntries([...new FormData(form)].map(([key, value]) => [key, String(value)]));
    this._set({ isBusy: true, message: "", errors: new Map() });
    try {
      await action(values);
      form.reset();
      this._set({ isBusy: false });
      notify(done ?? t("settings.saved"));
    } catch (error) {
      const errors = new Map(error instanceof ApiError ? error.errors.map((each) => [each.field, each.message]) : []);
      const isBeside = errors.size > 0 && [...errors.keys()].every((each) => form.elements.namedItem(each));
      const message = error instanceof Error ? error.message : String(error);
      this._set({ isBusy: false, errors, message: isBeside ? "" : message });
      announce(message, { urgent: true });
      await this.host.updateComplete;
      /** @type {HTMLElement | null} */ (form.querySelector("[aria-invalid=true]"))?.focus();
    }
  }

  /** @param {Partial<Form>} change */
  _set(change) {
    Object.assign(this, change);
    this.host.requestUpdate();
  }

  /** A field of text; `list` has values to choose from. @param {string} name @param {string} label @param {FieldOptions} [options] */
  text(name, label, { type = "text", value = "", help = "", required = false, autocomplete = "off", min, list } = {}) {
    const id = this._id(name);
    return this._field(name, label, help, html`<input id=${id} class="input" name=${name} type=${type} .defaultValue=${value}
      ?required=${required} autocomplete=${autocomplete} min=${min ?? nothing} list=${list ? `${id}-list` : nothing} spellcheck="false"
      aria-invalid=${this.errors.has(name) ? "true" : nothing} aria-describedby="${id}-help ${id}-error" />
      ${list ? html`<datalist id="${id}-list">${list.map((each) => html`<option value=${each}></option>`)}</datalist>` : nothing}`);
  }

  /** A choice. @param {string} name @param {string} label @param {[string, string][]} choices value and text @param {FieldOptions & {change?: (value: string) => void}} [options] */
  choice(name, label, choices, { value = "", help = "", change } = {}) {
    const id = this._id(name);
    return this._field(name, label, help, html`<select id=${id} class="input" name=${name}
      aria-invalid=${this.errors.has(name) ? "true" : nothing} aria-describedby="${id}-help ${id}-error"
      @change=${(/** @type {any} */ event) => change?.(event.target.value)}>
      ${choices.map(([each, text]) => html`<option value=${each} ?selected=${each === value}>${text}</option>`)}
    </select>`);
  }

  /** @param {string} label */
  button(label) {
    return html`${this.message ? html`<p class="wrong form-message">${this.message}</p>` : nothing}
      <div class="form-actions"><button class="button primary" ?disabled=${this.isBusy}>${label}</button></div>`;
  }

  /** @param {string} name */
  _id(name) {
    return `${this.name}-${name}`;
  }

  /** @param {string} name @param {string} label @param {string} help @param {unknown} control */
  _field(name, label, help, control) {
    const id = this._id(name);
    return html`<div class="field">
      <label for=${id}>${label}</label>
      ${control}
      <span class="help" id="${id}-help" ?hidden=${!help}>${help}</span>
      <span class="wrong small" id="${id}-error" ?hidden=${!this.errors.has(name)}>${this.errors.get(name) ?? ""}</span>
    </div>`;
  }
}
