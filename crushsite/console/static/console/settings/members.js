// The members of a workspace and their roles.

import { html, nothing } from "../vendor/lit.js";
import { at, collect, post, remove } from "../core/api.js";
import { t } from "../core/strings.js";
import { Form } from "./form.js";
import { SettingsSection } from "./section.js";

const ROLES = /** @type {const} */ (["viewer", "prompter", "approver", "admin"]);

class MemberSettings extends SettingsSection {
  constructor() {
    super();
    this._form = new Form(this, "member");
  }

  get _path() {
    return at`workspaces/${this.workspaceId}/members`;
  }

  async load() {
    return collect(this._path);
  }

  /** @param {any[]} members */
  content(members) {
    const mayAdminister = this.rights.has("administer");
    return html`
      ${members.length === 0
        ? html`<p class="quiet">${t("settings.members.none")}</p>`
        : html`<ul class="settings-list" aria-label=${t("settings.members")}>
            ${members.map(
              (each) => html`<li class="settings-row">
                <div class="settings-about"><strong>${each.name}</strong> <span class="badge">${t(/** @type {StringKey} */ (`settings.role.${each.role}`))}</span></div>
                ${mayAdminister
                  ? html`<c-confirm-button .label=${t("settings.members.remove")} .about=${each.name}
                      .run=${() => void this.change(() => remove(`${this._path}/${encodeURIComponent(each.user_id)}`), t("settings.members.removed", { name: each.name }))}></c-confirm-button>`
                  : nothing}
              </li>`,
            )}
          </ul>`}
      ${mayAdminister ? this._add() : nothing}
    `;
  }

  _add() {
    const form = this._form;
    return html`<section class="settings-part">
      <h3>${t("settings.members.add")}</h3>
      <form class="settings-form" @submit=${(/** @type {Event} */ event) =>
        void form.submit(event, async (values) => {
          await post(this._path, { name: values["name"], role: values["role"] });
          await this.reload();
        })}>
        ${form.text("name", t("settings.members.name"), { required: true, help: t("settings.members.name_help") })}
        ${form.choice("role", t("settings.members.role"), ROLES.map((each) => [each, t(`settings.role.${each}_about`)]), { value: "prompter" })}
        ${form.button(t("settings.members.save"))}
      </form>
    </section>`;
  }
}

customElements.define("c-settings-members", MemberSettings);
