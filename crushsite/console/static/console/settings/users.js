// The users of the server, with their groups and roles, for those who administer it.

import { html, nothing } from "../vendor/lit.js";
import { at, collect, patch, post } from "../core/api.js";
import { workspaceAddress } from "../core/routes.js";
import { t } from "../core/strings.js";
import { Form } from "./form.js";
import { placeOfRole, roleName } from "./roles.js";
import { SettingsSection } from "./section.js";

class UserSettings extends SettingsSection {
  constructor() {
    super();
    this._form = new Form(this, "user");
  }

  async load() {
    const [users, groups, workspaces] = await Promise.all([collect("users"), collect("groups"), collect("workspaces?state=all")]);
    return { users, groups: groups.map((each) => each.name), paths: new Map(workspaces.map((each) => [each.id, each.path])) };
  }

  /** @param {{users: any[], groups: string[], paths: Map<string, string>}} data */
  content({ users, groups, paths }) {
    const form = this._form;
    return html`
      <ul class="settings-list" aria-label=${t("settings.users")}>
        ${users.map((each) => this._row(each, groups, paths))}
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

  /** @param {any} user @param {string[]} groups @param {Map<string, string>} paths */
  _row(user, groups, paths) {
    const mayChange = this.me?.is_staff || !user.is_staff;
    return html`<li class="settings-row">
      <div class="settings-about">
        <strong>${user.name}</strong>
        ${user.is_owner ? html`<span class="badge">${t("settings.users.owner")}</span>` : nothing}
        ${user.is_staff ? html`<span class="badge">${t("settings.users.staff")}</span>` : nothing}
        ${user.is_active ? nothing : html`<span class="badge wrong">${t("settings.users.inactive")}</span>`}
        <span class="quiet small">${[user.email, ...user.groups].filter(Boolean).join(" · ")}</span>
      </div>
      ${user.is_owner || !mayChange
        ? nothing
        : html`<button class="button" aria-label=${`${t(user.is_active ? "settings.users.deactivate" : "settings.users.activate")} ${user.name}`}
            @click=${() => void this.change(() => patch(at`users/${user.id}`, { is_active: !user.is_active }), t("settings.saved"))}>
            ${t(user.is_active ? "settings.users.deactivate" : "settings.users.activate")}</button>`}
      <details class="settings-more">
        <summary aria-label=${`${t("settings.users.rights")}: ${user.name}`}>${t("settings.users.rights")}</summary>
        ${this._roles(user, paths)} ${mayChange ? this._groups(user, groups) : nothing}
      </details>
    </li>`;
  }

  /** @param {any} user @param {Map<string, string>} paths */
  _roles(user, paths) {
    if (user.is_staff) return html`<p class="quiet small">${t("settings.users.staff_about")}</p>`;
    if (user.roles.length === 0) return html`<p class="quiet small">${t("settings.users.no_roles")}</p>`;
    return html`<ul class="settings-roles" aria-label=${t("settings.users.roles", { name: user.name })}>
      ${user.roles.map((/** @type {any} */ each) => {
        const place = placeOfRole(each.workspace_id, paths);
        return html`<li><span class="badge">${roleName(each.role)}</span>
          ${each.workspace_id === null ? place : html`<a href="${workspaceAddress(each.workspace_id)}/settings/members">${place}</a>`}</li>`;
      })}
    </ul>`;
  }

  /** @param {any} user @param {string[]} groups */
  _groups(user, groups) {
    const hasStaff = this.me?.is_staff && !user.is_owner && user.id !== this.me.user_id;
    if (groups.length === 0 && !hasStaff) return nothing;
    return html`<form class="settings-groups" @submit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      const values = new FormData(/** @type {HTMLFormElement} */ (event.currentTarget));
      const change = { groups: values.getAll("groups"), ...(hasStaff ? { is_staff: values.has("is_staff") } : {}) };
      void this.change(() => patch(at`users/${user.id}`, change), t("settings.saved"));
    }}>
      ${groups.length === 0
        ? nothing
        : html`<fieldset class="settings-checks">
            <legend class="label">${t("settings.groups")}</legend>
            ${groups.map((each) => html`<label class="check"><input type="checkbox" name="groups" value=${each} .checked=${user.groups.includes(each)} /> ${each}</label>`)}
          </fieldset>`}
      ${hasStaff ? html`<label class="check"><input type="checkbox" name="is_staff" .checked=${user.is_staff} /> ${t("settings.users.make_staff")}</label>` : nothing}
      <div class="form-actions"><button class="button" aria-label=${`${t("action.save")} ${user.name}`}>${t("action.save")}</button></div>
    </form>`;
  }
}

customElements.define("c-settings-users", UserSettings);
