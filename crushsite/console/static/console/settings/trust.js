// Decisions about folders whose own configuration wants to act, and a review of any folder of the server.

import { html, nothing } from "../vendor/lit.js";
import { collect, get, post, query } from "../core/api.js";
import { iso, moment } from "../core/format.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { Form } from "./form.js";
import { SettingsSection } from "./section.js";
import "./trust_review.js";

const PAUSE = 200; // after a letter, before folders are read

class TrustSettings extends SettingsSection {
  static properties = { ...SettingsSection.properties, _reviewed: { state: true }, _folders: { state: true } };

  constructor() {
    super();
    this._form = new Form(this, "trust");
    /** The folder under review, as the server shows it. @type {any} */
    this._reviewed = null;
    /** What the field offers: at first the folders of workspaces. @type {string[]} */
    this._folders = [];
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this._timer = undefined;
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    clearTimeout(this._timer);
  }

  async load() {
    const [trust, workspaces] = await Promise.all([get("trust"), collect("workspaces?state=all")]);
    this._folders = workspaces.map((each) => each.path);
    return trust;
  }

  /** @param {string} path */
  _complete(path) {
    clearTimeout(this._timer);
    if (!path) return;
    this._timer = setTimeout(async () => {
      const found = await get(`folders${query({ path })}`).catch(() => null);
      if (found) this._folders = found.items.map((/** @type {{path: string}} */ each) => each.path);
    }, PAUSE);
  }

  /** @param {string} path */
  async _review(path) {
    this._reviewed = await get(`trust${query({ path })}`);
    await this.updateComplete;
    this.querySelector("c-trust-review")?.scrollIntoView({ block: "nearest" });
  }

  /** @param {string} answer @param {string} digest */
  async _decide(answer, digest) {
    const { path } = this._reviewed;
    await this.change(
      async () => (this._reviewed = await post("trust", { path, answer, digest })),
      t(answer === "revoke" ? "settings.trust.revoked" : "settings.saved"),
    );
  }

  /** @param {string} path */
  async _revoke(path) {
    const trust = await post("trust", { path, answer: "revoke" });
    if (this._reviewed?.path === path) this._reviewed = trust;
  }

  /** @param {{mode: string, answers: any[]}} data */
  content({ mode, answers }) {
    const form = this._form;
    return html`
      ${mode === "ask" ? nothing : html`<p class="card">${t(mode === "all" ? "settings.trust.mode_all" : "settings.trust.mode_none")}</p>`}
      ${answers.length === 0 ? html`<p class="quiet">${t("settings.trust.none")}</p>` : this._list(answers)}
      <section class="settings-part">
        <h3>${t("settings.trust.review_title")}</h3>
        <form class="settings-form" @input=${(/** @type {any} */ event) => this._complete(event.target.value)}
          @submit=${(/** @type {Event} */ event) => void form.submit(event, ({ path }) => this._review(path ?? ""), t("settings.trust.reviewed"))}>
          ${form.text("path", t("settings.trust.folder"), { required: true, help: t("settings.trust.folder_help"), list: this._folders })}
          ${form.button(t("settings.trust.review"))}
        </form>
        ${this._reviewed
          ? html`<c-trust-review .trust=${this._reviewed} .mayDecide=${this.rights.has("trust")}
              .decide=${(/** @type {string} */ answer, /** @type {string} */ digest) => void this._decide(answer, digest)}></c-trust-review>`
          : nothing}
      </section>
    `;
  }

  /** @param {any[]} answers */
  _list(answers) {
    return html`<ul class="settings-list" aria-label=${t("settings.trust")}>
      ${answers.map((each) => {
        const at = Date.parse(each.answered_at) / 1000;
        return html`<li class="settings-row">
          <div class="settings-about">
            <code>${each.path}</code>
            <span class="badge ${each.allowed ? "done" : "wrong"}">${t(each.allowed ? "settings.trust.allowed" : "settings.trust.denied")}</span>
            <span class="quiet small">${Number.isFinite(at) ? html`<time datetime=${iso(at)}>${moment(at)}</time>` : each.answered_at}</span>
          </div>
          <div class="settings-actions">
            <button type="button" class="button" aria-label=${`${t("settings.trust.review")} ${each.path}`}
              @click=${() => void attempt(() => this._review(each.path))}>${t("settings.trust.review")}</button>
            <c-confirm-button .label=${t("settings.revoke")} .about=${each.path}
              .run=${() => void this.change(() => this._revoke(each.path), t("settings.trust.revoked"))}></c-confirm-button>
          </div>
        </li>`;
      })}
    </ul>`;
  }
}

customElements.define("c-settings-trust", TrustSettings);
