// What happens to requests and questions that nobody answers.

import { html, nothing } from "../vendor/lit.js";
import { at, get, put } from "../core/api.js";
import { duration, moment } from "../core/format.js";
import { t } from "../core/strings.js";
import { Form } from "./form.js";
import { SettingsSection } from "./section.js";

const FIELDS = /** @type {const} */ (["notify_after_seconds", "deny_after_seconds"]);

class ApprovalSettings extends SettingsSection {
  constructor() {
    super();
    this._form = new Form(this, "policy");
  }

  get _path() {
    return at`workspaces/${this.workspaceId}/approval-policy`;
  }

  async load() {
    return get(this._path);
  }

  /** @param {any} policy */
  content(policy) {
    const form = this._form;
    const changed = policy.changed_at === null ? nothing : html`<p class="quiet small">${t("settings.approvals.changed", { name: policy.author?.name ?? "", time: moment(policy.changed_at) })}</p>`;
    if (!this.rights.has("configure")) {
      return html`<dl>${FIELDS.map((each) => html`<dt class="label">${t(`settings.approvals.${each}`)}</dt>
        <dd>${policy[each] === null ? t("settings.approvals.never") : duration(policy[each])}</dd>`)}</dl>${changed}`;
    }
    return html`<form class="settings-form" @submit=${(/** @type {Event} */ event) =>
      void form.submit(event, async (values) => {
        await put(this._path, Object.fromEntries(FIELDS.map((each) => [each, values[each] ? Number(values[each]) : null])));
        await this.reload();
        await this.updateComplete;
      })}>
      ${FIELDS.map((each) => form.text(each, t(`settings.approvals.${each}`), { type: "number", min: 1, value: String(policy[each] ?? ""), help: t(`settings.approvals.${each}_help`) }))}
      ${changed} ${form.button(t("action.save"))}
    </form>`;
  }
}

customElements.define("c-settings-approvals", ApprovalSettings);
