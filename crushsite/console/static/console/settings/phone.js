// A phone signs in with a QR code, which works once.

import { html, nothing } from "../vendor/lit.js";
import { post } from "../core/api.js";
import { clock } from "../core/format.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { SettingsSection } from "./section.js";

class PhoneSettings extends SettingsSection {
  static properties = { ...SettingsSection.properties, _link: { state: true } };

  constructor() {
    super();
    /** @type {any} */
    this._link = null;
  }

  async _create() {
    this._link = (await attempt(() => post("login-links"))) ?? null;
  }

  content() {
    const link = this._link;
    return html`
      <p><button class="button primary" @click=${() => void this._create()}>${icon("qr-code")}${t("settings.phone.create")}</button></p>
      ${link === null
        ? nothing
        : typeof link.qr === "string" && link.qr.startsWith("data:image/svg+xml")
          ? html`<div class="settings-part" role="status">
              <img class="pairing-code" src=${link.qr} alt=${t("settings.phone.code")} />
              <p>${t("settings.phone.scan", { time: clock(link.expires_at) })}</p>
            </div>`
          : html`<p class="card" role="status">${t("settings.phone.no_address")}</p>`}
    `;
  }
}

customElements.define("c-settings-phone", PhoneSettings);
