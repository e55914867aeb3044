// Channels: where a person gets messages about what waits and what has ended.

import { html, nothing } from "../vendor/lit.js";
import { at, collect, patch, post, remove } from "../core/api.js";
import { moment } from "../core/format.js";
import { t } from "../core/strings.js";
import { endsSelect } from "../cards/notification_choice.js";
import { choice, noteChannel } from "../cards/notifications.js";
import { Form } from "./form.js";
import { SettingsSection } from "./section.js";
import "../cards/notification_switch.js";
import "./secret.js";

class NotificationSettings extends SettingsSection {
  static properties = { ...SettingsSection.properties, _kind: { state: true } };

  constructor() {
    super();
    this._form = new Form(this, "channel");
    /** Of the channel that the form creates. */
    this._kind = "webhook";
    /** The secret of the newest webhook, until the page is left. */
    this._secret = "";
  }

  async load() {
    const channels = await collect("notifications/channels");
    const { channel } = choice();
    if (channel) noteChannel(channels.find((each) => each.id === channel) ?? null);
    return channels;
  }

  /** @param {any[]} channels */
  content(channels) {
    return html`
      <c-notification-switch .hasChoice=${true} .changed=${() => void this.reload()}></c-notification-switch>
      ${this._secret ? html`<c-secret .value=${this._secret} .label=${t("settings.notifications.secret")}></c-secret>` : nothing}
      <section class="settings-part">
        <h3>${t("settings.notifications.channels")}</h3>
        ${channels.length === 0
          ? html`<p class="quiet">${t("settings.notifications.none")}</p>`
          : html`<ul class="settings-list" aria-label=${t("settings.notifications.channels")}>${channels.map((each) => this._row(each))}</ul>`}
      </section>
      <section class="settings-part">
        <h3>${t("settings.notifications.add")}</h3>
        ${this._newChannel()}
      </section>
    `;
  }

  /** @param {any} channel */
  _row(channel) {
    const path = at`notifications/channels/${channel.id}`;
    const kind = t(/** @type {StringKey} */ (`settings.notifications.kind.${channel.kind}`));
    const about = `${kind} ${channel.name}`;
    const toggle = t(channel.is_enabled ? "settings.notifications.disable" : "settings.notifications.enable");
    return html`<li class="settings-row">
      <div class="settings-about">
        <strong>${channel.name}</strong> <span class="badge">${kind}</span>
        ${channel.id === choice().channel ? html`<span class="badge">${t("notify.this_browser")}</span>` : nothing}
        ${channel.is_enabled ? nothing : html`<span class="badge wrong">${t("settings.state.disabled")}</span>`}
        ${channel.last_error ? html`<span class="wrong small">${channel.last_error}</span>` : nothing}
        ${channel.last_sent_at === null ? nothing : html`<span class="quiet small">${t("settings.notifications.sent", { time: moment(channel.last_sent_at) })}</span>`}
        <c-notification-choice .wanted=${channel} .about=${about} .save=${(/** @type {any} */ change) => this.change(() => patch(path, change), t("settings.saved"))}></c-notification-choice>
      </div>
      <div class="settings-actions">
        <button class="button" aria-label="${t("settings.notifications.test")} ${about}" @click=${() => void this.change(() => post(`${path}/test`), t("settings.notifications.tested"))}>${t("settings.notifications.test")}</button>
        <button class="button" aria-label="${toggle} ${about}" @click=${() => void this.change(() => patch(path, { is_enabled: !channel.is_enabled }), t("settings.saved"))}>${toggle}</button>
        <c-confirm-button .label=${t("action.delete")} .about=${about} .run=${() => void this.change(() => remove(path), t("settings.notifications.deleted"))}></c-confirm-button>
      </div>
    </li>`;
  }

  _newChannel() {
    const form = this._form;
    const isWebhook = this._kind === "webhook";
    return html`<form class="settings-form" @submit=${(/** @type {Event} */ event) =>
      void form.submit(event, async (values) => {
        const wanted = { notify_waiting: "notify_waiting" in values, notify_ended: values["notify_ended"] };
        const made = await post("notifications/channels", isWebhook ? { kind: "webhook", url: values["url"], ...wanted } : { kind: "email", ...wanted });
        this._secret = made.secret;
        this._kind = "webhook";
        await this.reload();
      })}>
      ${form.choice("kind", t("settings.notifications.kind"), [["webhook", t("settings.notifications.kind.webhook")], ["email", t("settings.notifications.kind.email")]], {
        value: "webhook",
        help: isWebhook ? "" : t("settings.notifications.email_help"),
        change: (value) => (this._kind = value),
      })}
      ${isWebhook ? form.text("url", t("settings.notifications.url"), { type: "url", required: true, help: t("settings.notifications.url_help") }) : nothing}
      <label class="check"><input type="checkbox" name="notify_waiting" checked />${t("notify.waiting")}</label>
      <div class="field"><label for="channel-ends">${t("notify.ends")}</label>${endsSelect("own", "channel-ends")}</div>
      ${form.button(t("settings.notifications.save"))}
    </form>`;
  }
}

customElements.define("c-settings-notifications", NotificationSettings);
