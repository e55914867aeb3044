// For how long an answer also counts, and for which files. Sends `chosen` with the fields of the answer.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { t } from "../core/strings.js";

const SCOPES = /** @type {const} */ (["run", "session", "workspace"]);
const HOURS = { hour: 1, day: 8 };

class ScopeForm extends PageElement {
  static properties = {
    request: { attribute: false },
    error: { attribute: false },
    _ends: { state: true },
    _isFolder: { state: true },
    _fault: { state: true },
  };

  constructor() {
    super();
    /** @type {Record<string, any>} */
    this.request = {};
    this.error = "";
    this._ends = "never";
    this._isFolder = false;
    this._fault = "";
  }

  firstUpdated() {
    /** @type {HTMLElement | null} */ (this.querySelector("input:checked"))?.focus();
  }

  /** @param {Event} event */
  _send(event) {
    event.preventDefault();
    const values = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const until = this._until(String(values.get("time") ?? ""));
    if (until !== null && !(until > Date.now() / 1000)) {
      this._fault = t("cards.until_missing");
      return;
    }
    this._fault = "";
    this.emit("chosen", {
      scope: values.get("scope"),
      ...(until === null ? {} : { until }),
      ...(this._isFolder ? { folder: String(values.get("folder") ?? "") } : {}),
      ...(values.get("note") ? { reason: values.get("note") } : {}),
    });
  }

  /** @param {string} time @returns {number | null} unix seconds; NaN without a valid time */
  _until(time) {
    if (this._ends === "never") return null;
    if (this._ends === "time") return Math.floor(new Date(time).getTime() / 1000);
    return Math.floor(Date.now() / 1000) + HOURS[/** @type {keyof typeof HOURS} */ (this._ends)] * 3600;
  }

  render() {
    const { request } = this;
    const fault = this._fault || this.error;
    return html`<form class="request-form" @submit=${this._send}>
      <fieldset>
        <legend class="label">${t("cards.scope_legend")}</legend>
        <div class="choices">
          ${SCOPES.map((scope) => html`<label class="choice"><input type="radio" name="scope" value=${scope} ?checked=${scope === "session"} /><span>${t(`cards.scope_${scope}`)}</span></label>`)}
        </div>
        <p class="help">${t("cards.scope_help", { tool: request["tool_name"], action: request["action"] })}</p>
      </fieldset>
      <label class="field"><span class="label">${t("cards.until_label")}</span>
        <select class="input" @change=${(/** @type {any} */ event) => (this._ends = event.target.value)}>
          ${(/** @type {const} */ (["never", "hour", "day", "time"])).map((each) => html`<option value=${each} ?selected=${each === this._ends}>${t(`cards.until_${each}`)}</option>`)}
        </select></label>
      ${this._ends === "time"
        ? html`<label class="field"><span class="label">${t("cards.until_when")}</span><input class="input" type="datetime-local" name="time" /></label>`
        : nothing}
      <label class="choice"><input type="checkbox" .checked=${this._isFolder} @change=${(/** @type {any} */ event) => (this._isFolder = event.target.checked)} />
        <span>${t("cards.folder_label")}</span></label>
      ${this._isFolder
        ? html`<label class="field"><span class="label">${t("cards.folder_path")}</span><input class="input mono" name="folder" required .value=${folderOf(request)} /></label>`
        : nothing}
      <label class="field"><span class="label">${t("cards.note_label")}</span><textarea class="input" name="note" rows="1"></textarea></label>
      ${fault ? html`<p class="wrong" role="alert">${fault}</p>` : nothing}
      <div class="request-buttons">
        <button class="button primary">${t("cards.allow")}</button>
        <button class="button" type="button" @click=${() => this.emit("back")}>${t("cards.back")}</button>
      </div>
    </form>`;
  }
}

/** The folder of the request's files. @param {Record<string, any>} request */
function folderOf(request) {
  const file = request["files"]?.[0];
  return file ? file.slice(0, file.lastIndexOf("/")) || "/" : request["path"];
}

customElements.define("c-scope-form", ScopeForm);
