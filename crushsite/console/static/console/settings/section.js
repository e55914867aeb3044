// What all sections of the settings share: they load, show an error with a way out, and their content.

import { html, nothing } from "../vendor/lit.js";
import { ApiError } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { icon } from "../core/icons.js";
import { attempt, notify } from "../core/toasts.js";
import { t } from "../core/strings.js";
import "./confirm_button.js";

export class SettingsSection extends PageElement {
  static properties = {
    workspaceId: { attribute: false },
    rights: { attribute: false },
    me: { attribute: false },
    _data: { state: true },
    _error: { state: true },
  };

  constructor() {
    super();
    /** Empty in the settings of the whole server. */
    this.workspaceId = "";
    /** The person's rights in the workspace. @type {Set<string>} */
    this.rights = new Set();
    /** @type {any} */
    this.me = null;
    /** What `load` returned. @type {any} */
    this._data = undefined;
    /** @type {Error | null} */
    this._error = null;
  }

  connectedCallback() {
    super.connectedCallback();
    void this.reload();
  }

  /** Sections return what they show. @returns {Promise<any>} */
  async load() {
    return null;
  }

  async reload() {
    try {
      this._data = await this.load();
      this._error = null;
    } catch (error) {
      this._error = /** @type {Error} */ (error);
    }
  }

  /** Does what a person chose, shows the new state, and reports it.
   * @param {() => Promise<unknown>} action @param {string} done */
  async change(action, done) {
    const result = await attempt(async () => {
      await action();
      return true;
    });
    if (!result) return;
    notify(done);
    await this.reload();
  }

  render() {
    if (this._error) {
      const isForbidden = this._error instanceof ApiError && this._error.status === 403;
      return html`<div class="card" role="alert">
        <p>${isForbidden ? t("settings.forbidden") : this._error.message}</p>
        ${isForbidden ? nothing : html`<button class="button" @click=${() => void this.reload()}>${icon("refresh-cw")}${t("error.retry")}</button>`}
      </div>`;
    }
    if (this._data === undefined) return html`<p class="quiet">${t("state.loading")}</p>`;
    return this.content(this._data);
  }

  /** @param {any} _data @returns {unknown} */
  content(_data) {
    return nothing;
  }
}
