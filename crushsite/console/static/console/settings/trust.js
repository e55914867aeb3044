// Decisions about folders whose own configuration wants to act.

import { html } from "../vendor/lit.js";
import { get, post } from "../core/api.js";
import { iso, moment } from "../core/format.js";
import { t } from "../core/strings.js";
import { SettingsSection } from "./section.js";

class TrustSettings extends SettingsSection {
  async load() {
    return (await get("trust")).answers;
  }

  /** @param {any[]} answers */
  content(answers) {
    if (answers.length === 0) return html`<p class="quiet">${t("settings.trust.none")}</p>`;
    return html`<ul class="settings-list" aria-label=${t("settings.trust")}>
      ${answers.map((each) => {
        const at = Date.parse(each.answered_at) / 1000;
        return html`<li class="settings-row">
          <div class="settings-about">
            <code>${each.path}</code>
            <span class="badge ${each.allowed ? "done" : "wrong"}">${t(each.allowed ? "settings.trust.allowed" : "settings.trust.denied")}</span>
            <span class="quiet small">${Number.isFinite(at) ? html`<time datetime=${iso(at)}>${moment(at)}</time>` : each.answered_at}</span>
          </div>
          <c-confirm-button .label=${t("settings.revoke")} .about=${each.path}
            .run=${() => void this.change(() => post("trust", { path: each.path, answer: "revoke" }), t("settings.trust.revoked"))}></c-confirm-button>
        </li>`;
      })}
    </ul>`;
  }
}

customElements.define("c-settings-trust", TrustSettings);
