// Channels: where a person gets messages about requests that wait.

import { html, nothing } from "../vendor/lit.js";
import { at, collect, patch, post, remove } from "../core/api.js";
import { moment } from "../core/format.js";
import { t } from "../core/strings.js";
import { Form } from "./form.js";
import { SettingsSection } from "./section.js";
import "../cards/notification_switch.js";
import "./secret.js";

class NotificationSettings extends SettingsSection {
  constructor() {
    super();
    this._form = new Form(this, "webhook");
    /** The secret of the newest webhook, until the page is left. */
    this._secret = "";
  }

  async load() {
    return collect("notifications/channels");
  }

  /** @param {any[]} channels */
  content(channels) {
    const form = this._form;
    return html`
      <c-notification-switch></c-notification-switch>
      ${this._secret ? html`<c-secret .value=${this._secret} .label=${t("settings.notifications.secret")}></c-secret>` : nothing}
      <section class="settings-part">
        <h3>${t("settings.notifications.channels")}</h3>
        ${channels.length === 0
          ? html`<p class="quiet">${t("settings.notifications.none")}</p>`
          : html`<ul class="settings-list" aria-label=${t("settings.notifications.channels")}>${channels.map((each) => this._row(each))}</ul>`}
      </section>
      <section class="settings-part">
        <h3>${t("settings.notifications.add")}</h3>
        <form class="settings-form" @submit=${(/** @type {Event} */ event) =>
          void form.submit(event, async ({ url }) => {
            const made = await post("notifications/channels", { kind: "webhook", url });
            this._secret = made.secret;
            await this.reload();
          })}>
          ${form.text("url", t("settings.notifications.url"), { type: "url", required: true, help: t("settings.notifications.url_help") })}
          ${form.button(t("settings.notifications.save"))}
        </form>
      </section>
    `;
  }

  /** @param {any} channel */
  _row(channel) {
    const path = at`notifications/channels/${channel.id}`;
    const about = `${channel.kind} ${channel.name}`;
    const toggle = t(channel.is_enabled ? "settings.notifications.disable" : "settings.notifications.enable");
    return html`<li class="settings-row">
      <div class="settings-about">
        <strong>${channel.name}</strong> <span class="badge">${channel.kind}</span>
        ${channel.is_enabled ? nothing : html`<span class="badge wrong">${t("settings.state.disabled")}</span>`}
        ${channel.last_error ? html`<span class="wrong small">${channel.last_error}</span>` : nothing}
        ${channel.last_sent_at === null ? nothing : html`<span class="quiet small">${t("settings.notifications.sent", { time: moment(channel.last_sent_at) })}</span>`}
      </div>
      <div class="settings-actions">
        <button class="button" aria-label="${t("settings.notifications.test")} ${about}" @click=${() => void this.change(() => post(`${path}/test`), t("settings.notifications.tested"))}>${t("settings.notifications.test")}</button>
        <button class="button" aria-label="${toggle} ${about}" @click=${() => void this.change(() => patch(path, { is_enabled: !channel.is_enabled }), t("settings.saved"))}>${toggle}</button>
        <c-confirm-button .label=${t("action.delete")} .about=${about} .run=${() => void this.change(() => remove(path), t("settings.notifications.deleted"))}></c-confirm-button>
      </div>
    </li>`;
  }
}

customElements.define("c-settings-notifications", NotificationSettings);
