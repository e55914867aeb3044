// The audit: who did what, the newest first, page by page. The address has the filters.

import { html, nothing } from "../vendor/lit.js";
import { at, collect, get, query } from "../core/api.js";
import { iso, moment, nameOf } from "../core/format.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { SettingsSection } from "./section.js";

const PAGE = 50;
const DATE = /^\d{4}-\d\d-\d\d$/;

/** All kinds of acts: the type checker misses one that is not here. @type {Record<Schemas["AuditEntry"]["act"], true>} */
const ACTS = {
  prompt: true,
  summarize: true,
  cancel: true,
  "clear queue": true,
  "change queue": true,
  "delete session": true,
  rewind: true,
  "undo rewind": true,
  answer: true,
  "answer questions": true,
  "dismiss questions": true,
  "revoke grant": true,
  "approval policy": true,
  "permission mode": true,
  labels: true,
  "shell command": true,
  trust: true,
  configure: true,
  "create token": true,
  "revoke token": true,
  "create login link": true,
  "add user": true,
  "change user": true,
  "add group": true,
  "delete group": true,
  "set role": true,
  "set share": true,
  "create channel": true,
  "change channel": true,
  "delete channel": true,
  "second factor": true,
  "sign in": true,
  "sign out": true,
};

const FIELDS = /** @type {const} */ (["user_id", "act", "workspace_id", "session_id", "from", "to"]);

/** The filters of the address. @returns {Record<string, string>} */
function filterOfAddress() {
  const found = new URLSearchParams(location.search);
  return Object.fromEntries(FIELDS.map((name) => [name, found.get(name) ?? ""]));
}

/** The beginning of a day here, in unix seconds; of the next one with `after`. @param {string} date @param {number} [after] */
function secondsOf(date, after = 0) {
  if (!DATE.test(date)) return undefined;
  const [year, month, day] = date.split("-").map(Number);
  return Math.floor(new Date(year ?? 0, (month ?? 1) - 1, (day ?? 1) + after).getTime() / 1000);
}

class AuditSettings extends SettingsSection {
  constructor() {
    super();
    this._filter = filterOfAddress();
    const page = location.pathname;
    this._moved = () => {
      if (location.pathname === page) void this._search(filterOfAddress());
    };
  }

  connectedCallback() {
    super.connectedCallback();
    addEventListener("popstate", this._moved);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    removeEventListener("popstate", this._moved);
  }

  /** @param {string | null} [cursor] */
  _path(cursor = null) {
    const { from = "", to = "", workspace_id: workspace, ...filter } = this._filter;
    const list = this.workspaceId ? at`workspaces/${this.workspaceId}/audit` : "audit";
    const where = this.workspaceId ? undefined : workspace;
    return list + query({ ...filter, workspace_id: where, since: secondsOf(from), until: secondsOf(to, 1), limit: PAGE, cursor });
  }

  async load() {
    const hasServer = this.me?.can.includes("administer") ?? false;
    const [page, users, members, workspaces] = await Promise.all([
      get(this._path()),
      hasServer ? collect("users") : [],
      hasServer ? [] : collect(at`workspaces/${this.workspaceId}/members`),
      this.workspaceId ? [] : collect("workspaces?state=all"),
    ]);
    const people = [...users.map((each) => [each.id, each.name]), ...members.map((each) => [each.user_id, each.name])];
    return { ...page, people, paths: new Map(workspaces.map((each) => [each.id, each.path])) };
  }

  async _more() {
    const page = await attempt(() => get(this._path(this._data.next)));
    if (page) this._data = { ...this._data, items: [...this._data.items, ...page.items], next: page.next };
  }

  /** @param {Record<string, string>} filter */
  async _search(filter) {
    this._filter = filter;
    const page = await attempt(() => get(this._path()));
    if (page && filter === this._filter) this._data = { ...this._data, ...page };
  }

  /** @param {Event} event */
  _submit(event) {
    event.preventDefault();
    const values = new FormData(/** @type {HTMLFormElement} */ (event.currentTarget));
    const filter = Object.fromEntries([...values].map(([name, value]) => [name, String(value).trim()]));
    history.replaceState(null, "", location.pathname + query(filter));
    void this._search(filter);
  }

  /** @param {{items: any[], next: string | null, people: [string, string][], paths: Map<string, string>}} data */
  content({ items, next, people, paths }) {
    const acts = Object.keys(ACTS).sort().map((each) => /** @type {[string, string]} */ ([each, each]));
    return html`
      <form class="settings-filter" @submit=${(/** @type {Event} */ event) => this._submit(event)}>
        ${this._choice("user_id", t("settings.audit.user"), people)} ${this._choice("act", t("settings.audit.act"), acts)}
        ${this.workspaceId ? nothing : this._choice("workspace_id", t("settings.groups.where"), [...paths])}
        ${this._text("session_id", t("settings.audit.session"), "text")} ${this._text("from", t("settings.audit.from"), "date")}
        ${this._text("to", t("settings.audit.to"), "date")}
        <button class="button">${t("settings.audit.filter")}</button>
      </form>
      ${items.length === 0 ? html`<p class="quiet">${t("settings.audit.none")}</p>` : this._table(items, paths)}
      ${next === null ? nothing : html`<p class="settings-part"><button class="button" @click=${() => void this._more()}>${t("settings.audit.more")}</button></p>`}
    `;
  }

  /** @param {string} name @param {string} label @param {[string, string][]} choices */
  _choice(name, label, choices) {
    const chosen = this._filter[name] ?? "";
    const isKnown = !chosen || choices.some(([value]) => value === chosen);
    return html`<div class="field"><label for="audit-${name}">${label}</label>
      <select id="audit-${name}" name=${name} class="input">
        <option value="">${t("settings.audit.all")}</option>
        ${isKnown ? nothing : html`<option value=${chosen} selected>${chosen}</option>`}
        ${choices.map(([value, text]) => html`<option value=${value} ?selected=${value === chosen}>${text}</option>`)}
      </select></div>`;
  }

  /** @param {string} name @param {string} label @param {string} type */
  _text(name, label, type) {
    return html`<div class="field"><label for="audit-${name}">${label}</label>
      <input id="audit-${name}" name=${name} type=${type} class="input" .defaultValue=${this._filter[name] ?? ""} autocomplete="off" spellcheck="false" /></div>`;
  }

  /** @param {any[]} items @param {Map<string, string>} paths */
  _table(items, paths) {
    return html`<div class="card audit" tabindex="0" role="region" aria-label=${t("settings.audit.entries")}>
      <table class="table">
        <thead><tr>
          ${/** @type {const} */ (["at", "who", "act", "target", "outcome"]).map((each) => html`<th scope="col">${t(`settings.audit.column.${each}`)}</th>`)}
        </tr></thead>
        <tbody>
          ${items.map((each) => html`<tr>
            <td class="number"><time datetime=${iso(each.at)}>${moment(each.at)}</time></td>
            <td title=${each.address || nothing}>${each.actor.name || each.actor.kind}</td>
            <td>${each.act}</td>
            <td class="audit-target">${each.target}
              ${paths.has(each.workspace_id) ? html`<span class="quiet small" title=${paths.get(each.workspace_id) ?? nothing}>${nameOf(paths.get(each.workspace_id) ?? "")}</span>` : nothing}</td>
            <td>${each.outcome}</td>
          </tr>`)}
        </tbody>
      </table>
    </div>`;
  }
}

customElements.define("c-settings-audit", AuditSettings);
