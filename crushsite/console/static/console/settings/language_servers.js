// Language servers: their states and diagnostics.

import { html, nothing } from "../vendor/lit.js";
import { at, collect, post } from "../core/api.js";
import { t } from "../core/strings.js";
import { SettingsSection } from "./section.js";
import { stateBadge } from "./state_badge.js";

class LanguageServerSettings extends SettingsSection {
  async load() {
    return collect(at`workspaces/${this.workspaceId}/language-servers`);
  }

  /** @param {any[]} servers */
  content(servers) {
    if (servers.length === 0) return html`<p class="quiet">${t("settings.lsp.none")}</p>`;
    return html`<ul class="settings-list" aria-label=${t("settings.lsp")}>
        ${servers.map(
          (each) => html`<li class="settings-row">
            <div class="settings-about">
              <strong>${each.name}</strong> ${stateBadge(each.state)}
              ${each.error ? html`<span class="wrong small">${each.error}</span>` : nothing}
            </div>
            <span class="quiet small">${t("settings.lsp.diagnostics", { n: each.diagnostic_count })}</span>
          </li>`,
        )}
      </ul>
      ${this.rights.has("configure")
        ? html`<p class="settings-part"><button class="button" @click=${() => void this.change(() => post(at`workspaces/${this.workspaceId}/language-servers/stop`), t("settings.lsp.stopped"))}>${t("settings.lsp.stop")}</button></p>`
        : nothing}`;
  }
}

customElements.define("c-settings-lsp", LanguageServerSettings);
