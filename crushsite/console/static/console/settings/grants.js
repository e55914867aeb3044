// Grants: answers that also count for later calls.

import { html } from "../vendor/lit.js";
import { at, collect, query, remove } from "../core/api.js";
import { moment, nameOf, when } from "../core/format.js";
import { t } from "../core/strings.js";
import { SettingsSection } from "./section.js";

class GrantSettings extends SettingsSection {
  async load() {
    const filter = query({ workspace_id: this.workspaceId });
    const [grants, workspaces] = await Promise.all([collect(`grants${filter}`), collect("workspaces?state=all")]);
    return { grants, paths: new Map(workspaces.map((each) => [each.id, each.path])) };
  }

  /** @param {{grants: any[], paths: Map<string, string>}} data */
  content({ grants, paths }) {
    if (grants.length === 0) return html`<p class="quiet">${t("settings.grants.none")}</p>`;
    return html`<ul class="settings-list" aria-label=${t("settings.grants")}>
      ${grants.map((each) => html`<li class="settings-row">
        <div class="settings-about">
          <strong>${each.tool_name}${each.action ? `: ${each.action}` : ""}</strong>
          <code>${each.path}${each.is_folder ? "/…" : ""}</code>
          <span class="quiet small">${[
            t(/** @type {StringKey} */ (`settings.grants.scope.${each.scope}`)),
            this.workspaceId ? "" : nameOf(paths.get(each.workspace_id) ?? each.workspace_id),
            each.author ? t("settings.grants.by", { name: each.author.name, time: when(each.granted_at) }) : when(each.granted_at),
            each.expires_at === null ? "" : t("settings.tokens.ends", { time: moment(each.expires_at) }),
          ].filter(Boolean).join(" · ")}</span>
        </div>
        <c-confirm-button .label=${t("settings.revoke")} .about=${`${each.tool_name} ${each.path}`}
          .run=${() => void this.change(() => remove(at`workspaces/${each.workspace_id}/grants/${each.id}`), t("settings.grants.revoked"))}></c-confirm-button>
      </li>`)}
    </ul>`;
  }
}

customElements.define("c-settings-grants", GrantSettings);
