// Turns notifications of this browser on and off.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { choice, choose, isPossible, turnOff, turnOn } from "./notifications.js";
import "./notification_choice.js";

class NotificationSwitch extends PageElement {
  static properties = { hasChoice: { attribute: false }, changed: { attribute: false }, _choice: { state: true }, _isBusy: { state: true } };

  constructor() {
    super();
    /** Whether it also shows what this browser is notified about; the list of channels has it where one exists. */
    this.hasChoice = false;
    /** After it was switched. */
    this.changed = () => {};
    this._choice = choice();
    this._isBusy = false;
    /** @type {PermissionStatus | null} */
    this._permission = null;
    this._permitted = () => this.requestUpdate();
  }

  connectedCallback() {
    super.connectedCallback();
    void this._watchPermission();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._permission?.removeEventListener("change", this._permitted);
    this._permission = null;
  }

  /** The person may allow notifications in the browser's settings while the page is open. */
  async _watchPermission() {
    const permission = await navigator.permissions?.query({ name: "notifications" }).catch(() => null);
    if (!permission || !this.isConnected || this._permission) return;
    this._permission = permission;
    permission.addEventListener("change", this._permitted);
    this.requestUpdate(); // it may have changed since the first rendering
  }

  async _switch() {
    if (this._isBusy) return;
    this._isBusy = true;
    this._choice = (await attempt(() => (this._choice.isOn ? turnOff() : turnOn()))) ?? choice();
    this._isBusy = false;
    this.changed();
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
    const help = html`<p class="quiet small" role="status">${this._choice.channel ? t("notify.push") : t("notify.tab", { reason: this._choice.reason })}</p>`;
    if (!this.hasChoice || this._choice.channel) return help;
    return html`${help}<c-notification-choice .wanted=${this._choice} .about=${t("notify.this_browser")}
      .save=${(/** @type {any} */ change) => Promise.resolve((this._choice = choose(change)))}></c-notification-choice>`;
  }
}

customElements.define("c-notification-switch", NotificationSwitch);
