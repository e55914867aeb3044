// Hooks, mistakes in the configuration's files, and the merged configuration without secrets.

import { html, nothing } from "../vendor/lit.js";
import { at, get } from "../core/api.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { SettingsSection } from "./section.js";

class ConfigurationSettings extends SettingsSection {
  async load() {
    return get(at`workspaces/${this.workspaceId}/configuration`);
  }

  /** @param {any} data */
  content({ config, problems, data_dir: folder }) {
    const hooks = Object.entries(config.hooks ?? {}).flatMap(([event, several]) =>
      (Array.isArray(several) ? several : []).map((each) => ({ event, ...each })),
    );
    return html`
      <section class="settings-part">
        <h3>${t("settings.configuration.hooks")}</h3>
        ${hooks.length === 0
          ? html`<p class="quiet">${t("settings.configuration.no_hooks")}</p>`
          : html`<ul class="settings-list" aria-label=${t("settings.configuration.hooks")}>
              ${hooks.map(
                (each) => html`<li class="settings-row"><div class="settings-about">
                  <strong>${each.name || each.event}</strong>
                  <span class="badge">${each.event}</span>
                  ${each.matcher ? html`<span class="quiet small">${t("settings.configuration.matcher", { matcher: each.matcher })}</span>` : nothing}
                  <code>${each.command}</code>
                </div></li>`,
              )}
            </ul>`}
      </section>
      ${problems.length > 0
        ? html`<section class="settings-part">
            <h3>${t("settings.configuration.problems")}</h3>
            <ul class="settings-list">
              ${problems.map((/** @type {any} */ each) => html`<li class="settings-row"><span class=${each.is_warning ? "" : "wrong"}>${icon(each.is_warning ? "triangle-alert" : "circle-alert")} ${each.text}</span></li>`)}
            </ul>
          </section>`
        : nothing}
      <section class="settings-part">
        <h3>${t("settings.configuration.merged")}</h3>
        <p class="quiet small">${t("settings.configuration.merged_help", { folder })}</p>
        <details>
          <summary>${t("settings.configuration.show")}</summary>
          <pre class="settings-text" tabindex="0">${JSON.stringify(config, null, 2)}</pre>
        </details>
      </section>
    `;
  }
}

customElements.define("c-settings-configuration", ConfigurationSettings);
