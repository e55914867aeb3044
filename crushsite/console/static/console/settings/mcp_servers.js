// MCP servers: their states, what they offer, and logins to them.

import { html, nothing } from "../vendor/lit.js";
import { at, collect, get, post } from "../core/api.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { SettingsSection } from "./section.js";
import { stateBadge } from "./state_badge.js";

/** @typedef {{tools: any[], prompts: any[], resources: any[]}} Offer */

class McpSettings extends SettingsSection {
  static properties = { ...SettingsSection.properties, _offers: { state: true }, _login: { state: true } };

  constructor() {
    super();
    /** What the opened servers offer. @type {Map<string, Offer>} */
    this._offers = new Map();
    /** The address of a login that has begun. @type {{name: string, address: string} | null} */
    this._login = null;
  }

  async load() {
    return collect(at`workspaces/${this.workspaceId}/mcp-servers`);
  }

  /** @param {string} name @param {boolean} isOpen */
  async _open(name, isOpen) {
    if (!isOpen || this._offers.has(name)) return;
    const offer = await attempt(() => get(at`workspaces/${this.workspaceId}/mcp-servers/${name}`));
    if (offer) this._offers = new Map([...this._offers, [name, offer]]);
  }

  /** @param {string} name */
  async _refresh(name) {
    this._offers = new Map();
    await this.change(
      () => post(at`workspaces/${this.workspaceId}/mcp-servers/${name}/refresh`, { list: "tools" }),
      t("settings.mcp.refreshed", { name }),
    );
  }

  /** @param {string} name */
  async _logIn(name) {
    const answer = await attempt(() => post(at`workspaces/${this.workspaceId}/mcp-servers/${name}/login`));
    if (!answer) return;
    const address = webAddress(answer.auth_url);
    this._login = address ? { name, address } : null;
    await this.reload();
  }

  /** @param {any[]} servers */
  content(servers) {
    if (servers.length === 0) return html`<p class="quiet">${t("settings.mcp.none")}</p>`;
    return html`<ul class="settings-list" aria-label=${t("settings.mcp")}>
      ${servers.map((each) => this._row(each))}
    </ul>`;
  }

  /** @param {any} server */
  _row(server) {
    const mayConfigure = this.rights.has("configure");
    const login = this._login?.name === server.name ? this._login : null;
    return html`<li class="settings-row">
      <div class="settings-about">
        <strong>${server.name}</strong> ${stateBadge(server.state)}
        ${server.error ? html`<span class="wrong small">${server.error}</span>` : nothing}
      </div>
      ${mayConfigure
        ? html`<div class="settings-actions">
            <button class="button" aria-label=${`${t("settings.mcp.refresh")} ${server.name}`} @click=${() => void this._refresh(server.name)}>${t("settings.mcp.refresh")}</button>
            ${server.state === "needs auth"
              ? html`<button class="button" aria-label=${`${t("settings.mcp.login")} ${server.name}`} @click=${() => void this._logIn(server.name)}>${t("settings.mcp.login")}</button>`
              : nothing}
          </div>`
        : nothing}
      ${login ? html`<p class="settings-more"><a class="button primary" href=${login.address} target="_blank" rel="noopener noreferrer">${t("settings.mcp.open_login")}</a></p>` : nothing}
      <details class="settings-more" @toggle=${(/** @type {any} */ event) => void this._open(server.name, event.target.open)}>
        <summary>${t("settings.mcp.offers", { tools: server.tool_count, prompts: server.prompt_count, resources: server.resource_count })}</summary>
        ${this._offer(this._offers.get(server.name))}
      </details>
    </li>`;
  }

  /** @param {Offer | undefined} offer */
  _offer(offer) {
    if (!offer) return nothing;
    const all = [...offer.tools, ...offer.prompts, ...offer.resources];
    if (all.length === 0) return html`<p class="quiet small">${t("settings.mcp.empty")}</p>`;
    return html`<dl class="settings-offers">
      ${all.map((each) => html`<dt><code>${each.name || each.uri}</code></dt><dd class="quiet small">${each.description}</dd>`)}
    </dl>`;
  }
}

/** The address if a browser may open it: it comes from another server. @param {string} text */
function webAddress(text) {
  try {
    const { protocol, href } = new URL(text);
    return protocol === "https:" || protocol === "http:" ? href : "";
  } catch {
    return "";
  }
}

customElements.define("c-settings-mcp", McpSettings);
