// The settings of the server and those of a workspace: a list of sections, and the one of the address.

import { html, keyed, nothing } from "../vendor/lit.js";
import { collect, get } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { nameOf } from "../core/format.js";
import { icon } from "../core/icons.js";
import { rightsIn } from "../core/rights.js";
import { workspaceAddress } from "../core/routes.js";
import { t } from "../core/strings.js";
import { OF_SERVER, OF_WORKSPACE } from "./sections.js";

class Settings extends PageElement {
  static properties = {
    workspaceId: { attribute: false },
    section: { attribute: false },
    _shown: { state: true },
    _workspaces: { state: true },
    _isReady: { state: true },
    _error: { state: true },
  };

  constructor() {
    super();
    /** Empty: the settings of the server. */
    this.workspaceId = "";
    this.section = "";
    /** @type {Set<string>} */
    this.rights = new Set();
    /** @type {any} */
    this.me = null;
    /** The section whose module is loaded. @type {SettingsPart | null} */
    this._shown = null;
    /** @type {any[]} */
    this._workspaces = [];
    this._isReady = false;
    /** @type {Error | null} */
    this._error = null;
  }

  connectedCallback() {
    super.connectedCallback();
    void this._load();
  }

  async _load() {
    try {
      const [me, workspaces, rights] = await Promise.all([
        get("me"),
        collect("workspaces?state=all"),
        this.workspaceId ? rightsIn(this.workspaceId) : new Set(/** @type {string[]} */ ([])),
      ]);
      this.me = me;
      this._workspaces = workspaces;
      this.rights = this.workspaceId ? rights : new Set([...me.can, "account"]);
      this._error = null;
      this._isReady = true;
    } catch (error) {
      this._error = /** @type {Error} */ (error);
    }
  }

  get _sections() {
    const all = this.workspaceId ? OF_WORKSPACE : OF_SERVER;
    return all.filter((each) => each.needs === undefined || this.rights.has(each.needs));
  }

  get _wanted() {
    return this.section ? this._sections.find((each) => each.name === this.section) : this._sections[0];
  }

  /** @param {Map<string, unknown>} changed */
  updated(changed) {
    if (changed.has("section") || changed.has("_isReady")) void this._open();
  }

  async _open() {
    const wanted = this._wanted;
    if (!this._isReady || !wanted) return;
    await wanted.load();
    this._shown = wanted;
    // On a phone the sections are one line, which scrolls.
    const link = this.querySelector(".settings-nav [aria-current]");
    if (link instanceof HTMLElement && link.parentElement) link.parentElement.scrollLeft = link.offsetLeft - link.parentElement.offsetLeft - 16;
  }

  render() {
    const workspace = this._workspaces.find((each) => each.id === this.workspaceId);
    const base = this.workspaceId ? `${workspaceAddress(this.workspaceId)}/settings` : "/settings";
    return html`<div class="page settings">
      <div class="page-head">
        <div>
          <h1>${this.workspaceId ? t("settings.workspace_title") : t("settings.title")}</h1>
          ${workspace ? html`<p class="quiet small settings-path">${workspace.path}</p>` : nothing}
        </div>
      </div>
      ${this._error
        ? html`<div class="card" role="alert"><p>${this._error.message}</p><button class="button" @click=${() => void this._load()}>${t("error.retry")}</button></div>`
        : this._isReady
          ? html`<div class="settings-body">
              <nav class="settings-nav" aria-label=${t("settings.sections")}>
                ${this._sections.map(
                  (each) => html`<a href="${base}/${each.name}" aria-current=${each === this._wanted ? "page" : nothing}>${icon(each.icon)}${title(each.name)}</a>`,
                )}
                ${this._places()}
              </nav>
              <section class="settings-content" aria-labelledby="settings-heading">${this._content()}</section>
            </div>`
          : html`<p class="quiet">${t("state.loading")}</p>`}
    </div>`;
  }

  _content() {
    const wanted = this._wanted;
    if (!wanted) return html`<h2 id="settings-heading">${t("settings.title")}</h2><p class="card">${t("settings.forbidden")}</p>`;
    return html`<h2 id="settings-heading">${title(wanted.name)}</h2>
      <p class="quiet settings-help">${t(/** @type {StringKey} */ (`settings.${wanted.name}.help`))}</p>
      ${this._shown === wanted ? keyed(wanted.name, wanted.show({ workspaceId: this.workspaceId, rights: this.rights, me: this.me })) : html`<p class="quiet">${t("state.loading")}</p>`}`;
  }

  /** The way to the settings of the workspaces, and back. */
  _places() {
    if (this.workspaceId) return html`<a class="settings-other" href="/settings">${icon("arrow-left")}${t("settings.of_server")}</a>`;
    if (this._workspaces.length === 0) return nothing;
    return html`<h2 class="label settings-other">${t("settings.workspaces")}</h2>
      ${this._workspaces.map((each) => html`<a href="${workspaceAddress(each.id)}/settings" title=${each.path}>${icon("folder")}<span class="cut">${nameOf(each.path)}</span></a>`)}`;
  }
}

/** @param {string} name */
const title = (name) => t(/** @type {StringKey} */ (`settings.${name}`));

customElements.define("c-settings", Settings);
