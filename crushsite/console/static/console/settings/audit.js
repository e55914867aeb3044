// The audit: who did what, the newest first, page by page.

import { html, nothing } from "../vendor/lit.js";
import { at, get, query } from "../core/api.js";
import { moment } from "../core/format.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { SettingsSection } from "./section.js";

const PAGE = 50;
const DAYS = ["", "1", "7", "30"];

class AuditSettings extends SettingsSection {
  constructor() {
    super();
    /** @type {Record<string, string>} */
    this._filter = { act: "", session_id: "", days: "" };
  }

  /** @param {string | null} [cursor] */
  _path(cursor = null) {
    const { days, ...filter } = this._filter;
    const since = days ? Math.floor(Date.now() / 1000) - Number(days) * 86_400 : undefined;
    const list = this.workspaceId ? at`workspaces/${this.workspaceId}/audit` : "audit";
    return list + query({ ...filter, since, limit: PAGE, cursor });
  }

  async load() {
    return get(this._path());
  }

  async _more() {
    const page = await attempt(() => get(this._path(this._data.next)));
    if (page) this._data = { items: [...this._data.items, ...page.items], next: page.next };
  }

  /** @param {Event} event */
  async _search(event) {
    event.preventDefault();
    const values = new FormData(/** @type {HTMLFormElement} */ (event.currentTarget));
    this._filter = Object.fromEntries([...values].map(([name, value]) => [name, String(value).trim()]));
    const page = await attempt(() => get(this._path()));
    if (page) this._data = page;
  }

  /** @param {{items: any[], next: string | null}} data */
  content({ items, next }) {
    return html`
      <form class="settings-filter" @submit=${(/** @type {Event} */ event) => void this._search(event)}>
        <div class="field"><label for="audit-act">${t("settings.audit.act")}</label>
          <input id="audit-act" name="act" class="input" autocomplete="off" spellcheck="false" /></div>
        <div class="field"><label for="audit-session">${t("settings.audit.session")}</label>
          <input id="audit-session" name="session_id" class="input" autocomplete="off" spellcheck="false" /></div>
        <div class="field"><label for="audit-days">${t("settings.audit.since")}</label>
          <select id="audit-days" name="days" class="input">
            ${DAYS.map((each) => html`<option value=${each}>${each ? t("settings.tokens.days", { n: each }) : t("settings.audit.ever")}</option>`)}
          </select></div>
        <button class="button">${t("settings.audit.filter")}</button>
      </form>
      ${items.length === 0 ? html`<p class="quiet">${t("settings.audit.none")}</p>` : this._table(items)}
      ${next === null ? nothing : html`<p class="settings-part"><button class="button" @click=${() => void this._more()}>${t("settings.audit.more")}</button></p>`}
    `;
  }

  /** @param {any[]} items */
  _table(items) {
    return html`<div class="card audit" tabindex="0" role="region" aria-label=${t("settings.audit.entries")}>
      <table class="table">
        <thead><tr>
          ${/** @type {const} */ (["at", "who", "act", "target", "outcome"]).map((each) => html`<th scope="col">${t(`settings.audit.column.${each}`)}</th>`)}
        </tr></thead>
        <tbody>
          ${items.map((each) => html`<tr>
            <td class="number">${moment(each.at)}</td>
            <td>${each.actor.name || each.actor.kind}</td>
            <td>${each.act}</td>
            <td class="audit-target">${each.target}</td>
            <td>${each.outcome}</td>
          </tr>`)}
        </tbody>
      </table>
    </div>`;
  }
}

customElements.define("c-settings-audit", AuditSettings);
