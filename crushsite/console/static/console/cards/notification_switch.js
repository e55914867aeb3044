// Turns notifications of this browser on and off.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { choice, isPossible, turnOff, turnOn } from "./notifications.js";

class NotificationSwitch extends PageElement {
  static properties = { _choice: { state: true }, _isBusy: { state: true } };

  constructor() {
    super();
    this._choice = choice();
    this._isBusy = false;
  }

  async _switch() {
    if (this._isBusy) return;
    this._isBusy = true;
    this._choice = (await attempt(() => (this._choice.isOn ? turnOff() : turnOn()))) ?? choice();
    this._isBusy = false;
  }

  render() {
    if (!isPossible()) return html`<p class="quiet small">${t("notify.unsupported")}</p>`;
    const isBlocked = Notification.permission === "denied";
    const isOn = this._choice.isOn && !isBlocked;
    return html`<div class="notification-switch">
      <button class="button" role="switch" aria-checked=${isOn ? "true" : "false"} ?disabled=${isBlocked} @click=${() => void this._switch()}>
        ${icon(isOn ? "bell" : "bell-off")}${t("notify.label")}<span class="switch-mark" aria-hidden="true"></span>
      </button>
      ${this._help(isBlocked, isOn)}
    </div>`;
  }

  /** @param {boolean} isBlocked @param {boolean} isOn */
  _help(isBlocked, isOn) {
    if (isBlocked) return html`<p class="quiet small">${t("notify.blocked")}</p>`;
    if (!isOn) return nothing;
    return html`<p class="quiet small" role="status">${this._choice.channel ? t("notify.push") : t("notify.tab", { reason: this._choice.reason })}</p>`;
  }
}

customElements.define("c-notification-switch", NotificationSwitch);
