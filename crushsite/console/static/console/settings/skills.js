// Skills and their instructions.

import { html, nothing } from "../vendor/lit.js";
import { at, collect, get, query } from "../core/api.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { SettingsSection } from "./section.js";

class SkillSettings extends SettingsSection {
  static properties = { ...SettingsSection.properties, _contents: { state: true } };

  constructor() {
    super();
    /** The instructions of the opened skills. @type {Map<string, string>} */
    this._contents = new Map();
  }

  async load() {
    return collect(at`workspaces/${this.workspaceId}/skills`);
  }

  /** @param {string} id @param {boolean} isOpen */
  async _open(id, isOpen) {
    if (!isOpen || this._contents.has(id)) return;
    const skill = await attempt(() => get(at`workspaces/${this.workspaceId}/skills/content` + query({ id })));
    if (skill) this._contents = new Map([...this._contents, [id, skill.content]]);
  }

  /** @param {any[]} skills */
  content(skills) {
    if (skills.length === 0) return html`<p class="quiet">${t("settings.skills.none")}</p>`;
    return html`<ul class="settings-list" aria-label=${t("settings.skills")}>
      ${skills.map(
        (each) => html`<li class="settings-row">
          <div class="settings-about">
            <strong>${each.name}</strong>
            <span class="badge">${t(/** @type {StringKey} */ (`settings.skills.source.${each.source}`))}</span>
            <span class="quiet small">${each.description}</span>
          </div>
          <details class="settings-more" @toggle=${(/** @type {any} */ event) => void this._open(each.id, event.target.open)}>
            <summary>${t("settings.skills.content")}</summary>
            ${this._contents.has(each.id) ? html`<pre class="settings-text" tabindex="0">${this._contents.get(each.id)}</pre>` : nothing}
          </details>
        </li>`,
      )}
    </ul>`;
  }
}

customElements.define("c-settings-skills", SkillSettings);
