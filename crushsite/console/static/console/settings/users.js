// The users of the server, for those who administer it.

import { html, nothing } from "../vendor/lit.js";
import { at, collect, patch, post } from "../core/api.js";
import { t } from "../core/strings.js";
import { Form } from "./form.js";
import { SettingsSection } from "./section.js";

class UserSettings extends SettingsSection {
  constructor() {
    super();
    this._form = new Form(this, "user");
  }

  async load() {
    return collect("users");
  }

  /** @param {any[]} users */
  content(users) {
    const form = this._form;
    return html`
      <ul class="settings-list" aria-label=${t("settings.users")}>
        ${users.map((each) => this._row(each))}
      </ul>
      <section class="settings-part">
        <h3>${t("settings.users.add")}</h3>
        <form class="settings-form" @submit=${(/** @type {Event} */ event) =>
          void form.submit(event, async ({ name, email, password }) => {
            await post("users", { name, ...(email ? { email } : {}), ...(password ? { password } : {}) });
            await this.reload();
          })}>
          ${form.text("name", t("settings.users.name"), { required: true })}
          ${form.text("email", t("settings.users.email"), { type: "email" })}
          ${form.text("password", t("settings.users.password"), { type: "password", autocomplete: "new-password", help: t("settings.users.password_help") })}
          ${form.button(t("settings.users.save"))}
        </form>
      </section>
    `;
  }

  /** @param {any} user */
  _row(user) {
    const roles = user.roles.map((/** @type {any} */ each) => t(/** @type {StringKey} */ (`settings.role.${each.role}`)));
    return html`<li class="settings-row">
      <div class="settings-about">
        <strong>${user.name}</strong>
        ${user.is_owner ? html`<span class="badge">${t("settings.users.owner")}</span>` : nothing}
        ${user.is_staff ? html`<span class="badge">${t("settings.users.staff")}</span>` : nothing}
        ${user.is_active ? nothing : html`<span class="badge wrong">${t("settings.users.inactive")}</span>`}
        <span class="quiet small">${[user.email, ...user.groups, ...new Set(roles)].filter(Boolean).join(" · ")}</span>
      </div>
      ${user.is_owner
        ? nothing
        : html`<button class="button" aria-label=${`${t(user.is_active ? "settings.users.deactivate" : "settings.users.activate")} ${user.name}`}
            @click=${() => void this.change(() => patch(at`users/${user.id}`, { is_active: !user.is_active }), t("settings.saved"))}>
            ${t(user.is_active ? "settings.users.deactivate" : "settings.users.activate")}</button>`}
    </li>`;
  }
}

customElements.define("c-settings-users", UserSettings);
