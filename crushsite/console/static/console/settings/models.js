// The chosen models, the providers, and their keys. A key is written and never read.

import { html, nothing } from "../vendor/lit.js";
import { ApiError, at, collect, put } from "../core/api.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { Form } from "./form.js";
import { SettingsSection } from "./section.js";

const KINDS = /** @type {const} */ (["large", "small"]);
const SCOPES = { user: 0, workspace: 1 }; // as /v1 numbers them

/** Stores a provider's key. @param {string} workspaceId @param {Record<string, unknown>} fields */
async function writeKey(workspaceId, fields) {
  const answer = await fetch(at`/v1/workspaces/${workspaceId}/config/provider-key`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ kind: "string", ...fields }),
  });
  if (answer.ok) return;
  const problem = await answer.json().catch(() => ({}));
  throw new ApiError(answer.status, problem);
}

class ModelSettings extends SettingsSection {
  constructor() {
    super();
    this._forms = { large: new Form(this, "large"), small: new Form(this, "small"), key: new Form(this, "key") };
  }

  async load() {
    const path = at`workspaces/${this.workspaceId}`;
    const [choices, models, providers, known] = await Promise.all(
      [`${path}/model-choices`, `${path}/models`, `${path}/providers`, "known-providers"].map((each) => collect(each)),
    );
    return { choices, models, providers, known };
  }

  /** @param {any} data */
  content(data) {
    const mayConfigure = this.rights.has("configure");
    return html`
      <section class="settings-part">
        <h3>${t("settings.models.chosen")}</h3>
        ${KINDS.map((kind) => this._choice(data, kind, mayConfigure))}
      </section>
      <section class="settings-part">
        <h3>${t("settings.models.providers")}</h3>
        ${data.providers.length === 0 ? html`<p class="quiet">${t("settings.models.no_providers")}</p>` : this._providers(data)}
      </section>
      ${mayConfigure ? this._keyForm(data) : nothing}
    `;
  }

  /** @param {any} data */
  _providers({ providers }) {
    return html`<ul class="settings-list" aria-label=${t("settings.models.providers")}>
      ${providers.map((/** @type {any} */ each) => {
        // Providers that cannot work without a key are not among these: they are problems of the configuration.
        const state = each.has_key ? "has_key" : "no_key";
        return html`<li class="settings-row">
          <div class="settings-about"><strong>${each.name || each.id}</strong>
            <span class="quiet small">${[each.type, t("settings.models.count", { n: each.model_count }), each.base_url].filter(Boolean).join(" · ")}</span></div>
          <span class="badge ${each.has_key ? "done" : ""}">${icon("key-round")}${t(`settings.models.${state}`)}</span>
        </li>`;
      })}
    </ul>`;
  }

  /** @param {any} data @param {"large" | "small"} kind @param {boolean} mayConfigure */
  _choice(data, kind, mayConfigure) {
    const chosen = data.choices.find((/** @type {any} */ each) => each.kind === kind) ?? { provider: "", model: "", fault: "" };
    const form = this._forms[kind];
    const value = JSON.stringify([chosen.provider, chosen.model]);
    /** @type {[string, string][]} */
    const models = data.models.map((/** @type {any} */ each) => [JSON.stringify([each.provider, each.id]), `${each.provider} / ${each.name || each.id}`]);
    if (!models.some(([each]) => each === value)) models.unshift([value, chosen.model ? `${chosen.provider} / ${chosen.model}` : t("settings.models.none")]);
    const fault = chosen.fault ? html`<p class="wrong small">${icon("circle-alert")} ${chosen.fault}</p>` : nothing;
    if (!mayConfigure) return html`<p><span class="label">${t(`settings.models.${kind}`)}</span> ${chosen.provider} / ${chosen.model}</p>${fault}`;
    return html`<form class="settings-form" @submit=${(/** @type {Event} */ event) =>
      void form.submit(event, async (values) => {
        const [provider, model] = JSON.parse(values["model"] ?? "[]");
        await put(at`workspaces/${this.workspaceId}/model-choices/${kind}`, { provider, model, scope: values["scope"] });
        await this.reload();
      })}>
      ${form.choice("model", t(`settings.models.${kind}`), models, { value, help: t(`settings.models.${kind}_help`) })}
      ${form.choice("scope", t("settings.scope"), this._scopes())}
      ${fault} ${form.button(t("action.save"))}
    </form>`;
  }

  /** @returns {[string, string][]} */
  _scopes() {
    return [["workspace", t("settings.scope.workspace")], ["user", t("settings.scope.user")]];
  }

  /** @param {any} data */
  _keyForm(data) {
    const form = this._forms.key;
    /** @type {Map<string, string>} */
    const names = new Map([...data.providers, ...data.known].map((each) => [each.id, each.name || each.id]));
    const choices = /** @type {[string, string][]} */ ([...names]);
    return html`<section class="settings-part">
      <h3>${t("settings.models.key_title")}</h3>
      <p class="quiet small">${t("settings.models.key_help")}</p>
      <form class="settings-form" @submit=${(/** @type {Event} */ event) =>
        void form.submit(
          event,
          async (values) => {
            const scope = values["scope"] === "user" ? SCOPES.user : SCOPES.workspace;
            await writeKey(this.workspaceId, { scope, provider_id: values["provider_id"], api_key: values["api_key"] });
            await this.reload();
          },
          t("settings.models.key_saved"),
        )}>
        ${form.choice("provider_id", t("settings.models.provider"), choices)}
        ${form.text("api_key", t("settings.models.key"), { type: "password", required: true, autocomplete: "new-password" })}
        ${form.choice("scope", t("settings.scope"), this._scopes(), { value: "workspace" })}
        ${form.button(t("settings.models.key_save"))}
      </form>
    </section>`;
  }
}

customElements.define("c-settings-models", ModelSettings);
