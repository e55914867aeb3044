// Whether the configuration of a workspace's folder may act.

import { html } from "../vendor/lit.js";
import { at, get, post } from "../core/api.js";
import { t } from "../core/strings.js";
import { SettingsSection } from "./section.js";
import "./trust_review.js";

class WorkspaceTrustSettings extends SettingsSection {
  get _path() {
    return at`workspaces/${this.workspaceId}/trust`;
  }

  async load() {
    return get(this._path);
  }

  /** @param {any} trust */
  content(trust) {
    return html`<c-trust-review .trust=${trust} .mayDecide=${this.rights.has("trust")}
      .decide=${(/** @type {string} */ answer, /** @type {string} */ digest) =>
        void this.change(() => post(this._path, { answer, digest }), t(answer === "revoke" ? "settings.trust.revoked" : "settings.saved"))}></c-trust-review>`;
  }
}

customElements.define("c-settings-workspace-trust", WorkspaceTrustSettings);
