// The members of a workspace with their roles, and the roles that groups give in it.

import { html, nothing } from "../vendor/lit.js";
import { at, collect, post, remove } from "../core/api.js";
import { t } from "../core/strings.js";
import { Form } from "./form.js";
import { ROLES, roleChoices, roleName } from "./roles.js";
import { SettingsSection } from "./section.js";

class MemberSettings extends SettingsSection {
  constructor() {
    super();
    this._form = new Form(this, "member");
  }

  get _path() {
    return at`workspaces/${this.workspaceId}/members`;
  }

  /** Whether the person administers the server: who may see its users, and change groups. */
  get _hasServer() {
    return this.me?.can.includes("administer") ?? false;
  }

  async load() {
    const [members, groups, users] = await Promise.all([
      collect(this._path),
      collect(at`workspaces/${this.workspaceId}/group-roles`),
      this._hasServer ? collect("users") : [],
    ]);
    return { members, groups, users };
  }

  /** @param {{members: any[], groups: any[], users: any[]}} data */
  content({ members, groups, users }) {
    const mayAdminister = this.rights.has("administer");
    return html`
      ${members.length === 0
        ? html`<p class="quiet">${t("settings.members.none")}</p>`
        : html`<ul class="settings-list" aria-label=${t("settings.members")}>
            ${members.map((each) => this._row(each, mayAdminister))}
          </ul>`}
      ${groups.length === 0 ? nothing : this._groups(groups)}
      ${mayAdminister ? this._add(users.filter((each) => !each.is_staff).map((each) => each.name)) : nothing}
    `;
  }

  /** @param {any} member @param {boolean} mayAdminister */
  _row(member, mayAdminister) {
    const { name } = member;
    if (!mayAdminister) {
      return html`<li class="settings-row"><div class="settings-about"><strong>${name}</strong> <span class="badge">${roleName(member.role)}</span></div></li>`;
    }
    return html`<li class="settings-row">
      <div class="settings-about"><strong>${name}</strong></div>
      <div class="settings-actions">
        <select class="input" aria-label=${t("settings.members.role_of", { name })} .value=${member.role}
          @change=${(/** @type {any} */ event) => void this.change(() => post(this._path, { name, role: event.target.value }), t("settings.saved"))}>
          ${ROLES.map((each) => html`<option value=${each} ?selected=${each === member.role}>${roleName(each)}</option>`)}
        </select>
        <c-confirm-button .label=${t("settings.members.remove")} .about=${name}
          .run=${() => void this.change(() => remove(`${this._path}/${encodeURIComponent(member.user_id)}`), t("settings.members.removed", { name }))}></c-confirm-button>
      </div>
    </li>`;
  }

  /** @param {any[]} groups */
  _groups(groups) {
    return html`<section class="settings-part">
      <h3>${t("settings.members.groups")}</h3>
      <ul class="settings-list" aria-label=${t("settings.members.groups")}>
        ${groups.map((each) => html`<li class="settings-row"><div class="settings-about">
          <strong>${each.group}</strong> <span class="badge">${roleName(each.role)}</span>
          <span class="quiet small">${t(each.workspace_id === null ? "settings.role.everywhere" : "settings.role.here")}</span>
        </div></li>`)}
      </ul>
      ${this._hasServer ? html`<p><a href="/settings/groups">${t("settings.members.change_groups")}</a></p>` : nothing}
    </section>`;
  }

  /** @param {string[]} names of users who can be chosen */
  _add(names) {
    const form = this._form;
    return html`<section class="settings-part">
      <h3>${t("settings.members.add")}</h3>
      <form class="settings-form" @submit=${(/** @type {Event} */ event) =>
        void form.submit(event, async (values) => {
          await post(this._path, { name: values["name"], role: values["role"] });
          await this.reload();
        })}>
        ${form.text("name", t("settings.members.name"), { required: true, help: t("settings.members.name_help"), list: names })}
        ${form.choice("role", t("settings.members.role"), roleChoices(), { value: "prompter" })}
        ${form.button(t("settings.members.save"))}
      </form>
    </section>`;
  }
}

customElements.define("c-settings-members", MemberSettings);
