// Groups of users, and the roles that they give, for those who administer the server.

import { html, nothing } from "../vendor/lit.js";
import { at, collect, post, remove } from "../core/api.js";
import { t } from "../core/strings.js";
import { Form } from "./form.js";
import { placeOfRole, roleChoices, roleName, workspaceChoices } from "./roles.js";
import { SettingsSection } from "./section.js";

class GroupSettings extends SettingsSection {
  constructor() {
    super();
    this._new = new Form(this, "group");
    this._role = new Form(this, "group-role");
  }

  async load() {
    const [groups, roles, workspaces] = await Promise.all([collect("groups"), collect("group-roles"), collect("workspaces?state=all")]);
    return { groups, roles, workspaces };
  }

  /** @param {{groups: any[], roles: any[], workspaces: any[]}} data */
  content({ groups, roles, workspaces }) {
    const form = this._new;
    const paths = new Map(workspaces.map((each) => [each.id, each.path]));
    return html`
      ${groups.length === 0
        ? html`<p class="quiet">${t("settings.groups.none")}</p>`
        : html`<ul class="settings-list" aria-label=${t("settings.groups")}>
            ${groups.map((each) => this._row(each, roles.filter((role) => role.group === each.name), paths))}
          </ul>`}
      ${groups.length === 0 ? nothing : this._give(groups, workspaces)}
      <section class="settings-part">
        <h3>${t("settings.groups.add")}</h3>
        <form class="settings-form" @submit=${(/** @type {Event} */ event) =>
          void form.submit(event, async ({ name }) => {
            await post("groups", { name });
            await this.reload();
          })}>
          ${form.text("name", t("settings.groups.name"), { required: true })} ${form.button(t("settings.groups.save"))}
        </form>
      </section>
    `;
  }

  /** @param {any} group @param {any[]} roles @param {Map<string, string>} paths */
  _row(group, roles, paths) {
    return html`<li class="settings-row">
      <div class="settings-about">
        <strong>${group.name}</strong>
        <span class="quiet small">${t("settings.groups.count", { n: group.user_count })}</span>
      </div>
      <c-confirm-button .label=${t("action.delete")} .about=${group.name}
        .run=${() => void this.change(() => remove(at`groups/${group.id}`), t("settings.groups.deleted", { name: group.name }))}></c-confirm-button>
      ${roles.length === 0
        ? html`<p class="quiet small settings-more">${t("settings.groups.no_roles")}</p>`
        : html`<ul class="settings-roles settings-more" aria-label=${t("settings.users.roles", { name: group.name })}>
            ${roles.map((each) => {
              const place = placeOfRole(each.workspace_id, paths);
              return html`<li><span class="badge">${roleName(each.role)}</span> <span title=${paths.get(each.workspace_id) ?? nothing}>${place}</span>
                <c-confirm-button .label=${t("settings.groups.take")} .about=${`${group.name}: ${roleName(each.role)}, ${place}`}
                  .run=${() => void this.change(() => remove(at`group-roles/${each.id}`), t("settings.saved"))}></c-confirm-button></li>`;
            })}
          </ul>`}
    </li>`;
  }

  /** @param {any[]} groups @param {any[]} workspaces */
  _give(groups, workspaces) {
    const form = this._role;
    return html`<section class="settings-part">
      <h3>${t("settings.members.add")}</h3>
      <form class="settings-form" @submit=${(/** @type {Event} */ event) =>
        void form.submit(event, async (values) => {
          await post("group-roles", { group: values["group"], workspace_id: values["workspace_id"] || null, role: values["role"] });
          await this.reload();
        })}>
        ${form.choice("group", t("settings.groups.group"), groups.map((each) => [each.name, each.name]))}
        ${form.choice("workspace_id", t("settings.groups.where"), workspaceChoices(workspaces), { help: t("settings.groups.where_help") })}
        ${form.choice("role", t("settings.members.role"), roleChoices(), { value: "prompter" })}
        ${form.button(t("settings.members.save"))}
      </form>
    </section>`;
  }
}

customElements.define("c-settings-groups", GroupSettings);
