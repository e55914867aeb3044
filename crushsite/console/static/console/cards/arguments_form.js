// Edits the arguments of a call: a field for each, or all as JSON. Sends `edited` with the arguments.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { t } from "../core/strings.js";
import { faultIn, typesOf } from "./arguments.js";

/** @param {string} text as a text field keeps it */
const inField = (text) => text.replace(/\r\n?/g, "\n");

class ArgumentsForm extends PageElement {
  static properties = {
    values: { attribute: false },
    schema: { attribute: false },
    error: { attribute: false },
    _isJson: { state: true },
    _fault: { state: true },
  };

  constructor() {
    super();
    /** @type {Record<string, any>} */
    this.values = {};
    /** @type {Record<string, any>} */
    this.schema = {};
    /** The server's refusal. */
    this.error = "";
    this._isJson = false;
    this._fault = "";
    /** What the fields begin with: the call's arguments, or those of the other form. @type {Record<string, any> | null} */
    this._begun = null;
  }

  firstUpdated() {
    this._focusFirst();
  }

  _focusFirst() {
    /** @type {HTMLElement | null} */ (this.querySelector("textarea, input, select"))?.focus();
  }

  get _start() {
    return this._begun ?? this.values;
  }

  /** The arguments in the fields. Throws an error with a sentence. @returns {Record<string, any>} */
  _read() {
    const form = /** @type {HTMLFormElement} */ (this.querySelector("form"));
    if (this._isJson) return parsed(/** @type {any} */ (form.elements.namedItem("json")).value);
    /** @type {Record<string, any>} */
    const values = {};
    for (const [name, schema] of this._fields()) {
      const field = /** @type {any} */ (form.elements.namedItem(`argument ${name}`));
      const value = this._valueOf(field, name, schema);
      if (value !== undefined) values[name] = value;
    }
    return values;
  }

  /** @param {any} field @param {string} name @param {Record<string, any>} schema */
  _valueOf(field, name, schema) {
    const types = typesOf(schema);
    const before = this._start[name];
    if (types.includes("boolean")) return field.checked || before !== undefined ? field.checked : undefined;
    const text = field.value;
    if (text === "" && before === undefined) return undefined;
    // A text field changes line ends. Unchanged text stays as the model wrote it.
    if (types.includes("string")) return typeof before === "string" && inField(before) === text ? before : text;
    if (text === "") return undefined;
    if (types.includes("number") || types.includes("integer")) return Number(text);
    return parsed(text);
  }

  /** @returns {[string, Record<string, any>][]} */
  _fields() {
    const properties = this.schema["properties"] ?? {};
    const names = new Set([...Object.keys(properties), ...Object.keys(this._start)]);
    return [...names].map((name) => [name, properties[name] ?? {}]);
  }

  _switch() {
    try {
      this._begun = this._read();
    } catch (error) {
      this._fault = String(error instanceof Error ? error.message : error);
      return;
    }
    this._fault = "";
    this._isJson = !this._isJson;
    void this.updateComplete.then(() => this._focusFirst());
  }

  /** @param {Event} event */
  _send(event) {
    event.preventDefault();
    try {
      const values = this._read();
      this._fault = faultIn(values, this.schema);
      if (!this._fault && JSON.stringify(values) === JSON.stringify(this.values)) this._fault = t("cards.edit_unchanged");
      if (!this._fault) this.emit("edited", values);
    } catch (error) {
      this._fault = String(error instanceof Error ? error.message : error);
    }
  }

  render() {
    const fault = this._fault || this.error;
    return html`<form class="request-form" @submit=${this._send}>
      ${this._isJson ? this._json() : this._fields().map(([name, schema]) => this._field(name, schema))}
      ${fault ? html`<p class="wrong" role="alert">${fault}</p>` : nothing}
      <div class="request-buttons">
        <button class="button primary">${t("cards.edit_send")}</button>
        <button class="button" type="button" @click=${() => this.emit("back")}>${t("cards.back")}</button>
        <button class="link" type="button" @click=${this._switch}>${t(this._isJson ? "cards.edit_as_form" : "cards.edit_as_json")}</button>
      </div>
    </form>`;
  }

  _json() {
    const text = JSON.stringify(this._start, null, 2);
    return html`<label class="field"><span class="label">${t("cards.edit_json_label")}</span>
      <textarea class="input mono" name="json" spellcheck="false" rows=${rows(text)} .value=${text}></textarea></label>`;
  }

  /** @param {string} name @param {Record<string, any>} schema */
  _field(name, schema) {
    const isOptional = !(this.schema["required"] ?? []).includes(name);
    const help = schema["description"] ?? "";
    const label = html`<span class="label">${name}${isOptional ? html` <span class="quiet">(${t("cards.edit_optional")})</span>` : nothing}</span>`;
    const value = this._start[name];
    if (typesOf(schema).includes("boolean")) {
      return html`<label class="choice"><input type="checkbox" name="argument ${name}" .checked=${value === true} /><span>${label}
        ${help ? html`<span class="help">${help}</span>` : nothing}</span></label>`;
    }
    return html`<label class="field">${label}${this._control(name, schema, value)}
      ${help ? html`<span class="help">${help}</span>` : nothing}</label>`;
  }

  /** @param {string} name @param {Record<string, any>} schema @param {any} value */
  _control(name, schema, value) {
    const types = typesOf(schema);
    const field = `argument ${name}`;
    if (types.includes("string") && schema["enum"]) {
      return html`<select class="input" name=${field}>
        ${value === undefined ? html`<option value="" selected></option>` : nothing}
        ${schema["enum"].map((/** @type {string} */ each) => html`<option ?selected=${each === value}>${each}</option>`)}
      </select>`;
    }
    if (types.includes("number") || types.includes("integer")) {
      return html`<input class="input" type="number" step=${types.includes("number") ? "any" : "1"} name=${field} .value=${value ?? ""} />`;
    }
    const text = types.includes("string") && typeof (value ?? "") === "string" ? (value ?? "") : value === undefined ? "" : JSON.stringify(value, null, 2);
    return html`<textarea class="input mono" name=${field} spellcheck="false" rows=${rows(text)} .value=${text}></textarea>`;
  }
}

/** @param {string} text @returns {any} */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(t("cards.edit_bad_json", { reason: error instanceof Error ? error.message : "" }));
  }
}

/** @param {string} text */
const rows = (text) => Math.min(12, Math.max(1, text.split("\n").length));

customElements.define("c-arguments-form", ArgumentsForm);
