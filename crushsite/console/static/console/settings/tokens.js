// Tokens of programs: what they are for, what they may do, and a new one, whose secret is shown once.

import { html, nothing } from "../vendor/lit.js";
import { at, collect, post, remove } from "../core/api.js";
import { moment, when } from "../core/format.js";
import { t } from "../core/strings.js";
import { Form } from "./form.js";
import { SettingsSection } from "./section.js";
import "./secret.js";

const SCOPES = ["read", "open", "prompt", "cancel", "answer", "configure", "shell", "skip", "trust", "administer", "work"];
const DAYS = ["", "1", "7", "30", "90", "365"];

class TokenSettings extends SettingsSection {
  constructor() {
    super();
    this._form = new Form(this, "token");
    /** The secret of the newest token, until the page is left. */
    this._secret = "";
    /** @type {any[]} */
    this._workspaces = [];
  }

  async load() {
    const [tokens, workspaces] = await Promise.all([collect("tokens"), collect("workspaces?state=all")]);
    this._workspaces = workspaces;
    return tokens;
  }

  /** @param {Event} event */
  async _create(event) {
    const chosen = new FormData(/** @type {HTMLFormElement} */ (event.currentTarget)).getAll("scopes");
    await this._form.submit(
      event,
      async (values) => {
        const days = Number(values["days"]);
        const made = await post("tokens", {
          name: values["name"],
          ...(chosen.length > 0 ? { scopes: chosen } : {}),
          ...(values["workspaces"] ? { workspaces: [values["workspaces"]] } : {}),
          ...(days > 0 ? { expires_at: Math.floor(Date.now() / 1000) + days * 86_400 } : {}),
        });
        this._secret = made.token;
        await this.reload();
      },
      t("settings.tokens.created"),
    );
  }

  /** @param {any[]} tokens */
  content(tokens) {
    const valid = tokens.filter((each) => each.revoked_at === null);
    const form = this._form;
    return html`
      ${this._secret ? html`<c-secret .value=${this._secret} .label=${t("settings.tokens.secret")}></c-secret>` : nothing}
      ${valid.length === 0 ? html`<p class="quiet">${t("settings.tokens.none")}</p>` : this._list(valid)}
      <section class="settings-part">
        <h3>${t("settings.tokens.new")}</h3>
        <form class="settings-form" @submit=${(/** @type {Event} */ event) => void this._create(event)}>
          ${form.text("name", t("settings.tokens.name"), { required: true, help: t("settings.tokens.name_help") })}
          ${form.choice("workspaces", t("settings.tokens.workspaces"), [["", t("settings.tokens.everywhere")], .../** @type {[string, string][]} */ (this._workspaces.map((each) => [each.id, each.path]))])}
          ${form.choice("days", t("settings.tokens.expires"), DAYS.map((each) => [each, each ? t("settings.tokens.days", { n: each }) : t("settings.tokens.never")]), { value: "90" })}
          <fieldset class="settings-checks">
            <legend class="label">${t("settings.tokens.scopes")}</legend>
            <p class="quiet small">${t("settings.tokens.scopes_help")}</p>
            ${SCOPES.map((each) => html`<label class="check"><input type="checkbox" name="scopes" value=${each} /> ${t(/** @type {StringKey} */ (`settings.right.${each}`))}</label>`)}
          </fieldset>
          ${form.button(t("settings.tokens.create"))}
        </form>
      </section>
    `;
  }

  /** @param {any[]} valid */
  _list(valid) {
    return html`<ul class="settings-list" aria-label=${t("settings.tokens")}>
      ${valid.map(
        (each) => html`<li class="settings-row">
          <div class="settings-about">
            <strong>${each.name}</strong> <code>${each.prefix}…</code>
            <span class="quiet small">${this._about(each)}</span>
          </div>
          <c-confirm-button .label=${t("settings.revoke")} .about=${each.name}
            .run=${() => void this.change(() => this._revoke(each.id), t("settings.tokens.revoked", { name: each.name }))}></c-confirm-button>
        </li>`,
      )}
    </ul>`;
  }

  /** @param {string} id */
  async _revoke(id) {
    await remove(at`tokens/${id}`);
    this._secret = "";
  }

  /** @param {any} token */
  _about(token) {
    const scopes = token.scopes === null ? t("settings.tokens.all_rights") : token.scopes.map((/** @type {string} */ each) => t(/** @type {StringKey} */ (`settings.right.${each}`))).join(", ");
    const used = token.last_used_at === null ? t("settings.tokens.unused") : t("settings.tokens.used", { time: when(token.last_used_at) });
    const ends = token.expires_at === null ? t("settings.tokens.never_ends") : t("settings.tokens.ends", { time: moment(token.expires_at) });
    return [scopes, used, ends].join(" · ");
  }
}

customElements.define("c-settings-tokens", TokenSettings);
