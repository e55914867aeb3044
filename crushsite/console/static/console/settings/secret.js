// A secret that is shown once, with a button that copies it.

import { html } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { attempt, notify } from "../core/toasts.js";

class Secret extends PageElement {
  static properties = { value: { attribute: false }, label: { attribute: false } };

  constructor() {
    super();
    this.value = "";
    this.label = "";
  }

  firstUpdated() {
    this.querySelector("input")?.focus();
  }

  async _copy() {
    const done = await attempt(async () => {
      await navigator.clipboard.writeText(this.value);
      return true;
    });
    if (done) notify(t("action.copied"));
  }

  render() {
    return html`<div class="card secret">
      <label class="label" for="secret-value">${this.label}</label>
      <p class="small">${t("settings.secret_once")}</p>
      <div class="secret-row">
        <input id="secret-value" class="input mono" readonly .value=${this.value} @focus=${(/** @type {any} */ event) => event.target.select()} />
        <button type="button" class="button" @click=${() => void this._copy()}>${icon("copy")}${t("action.copy")}</button>
      </div>
    </div>`;
  }
}

customElements.define("c-secret", Secret);
