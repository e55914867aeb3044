// What a folder's own configuration would do, and the decision about it.

import { html, nothing } from "../vendor/lit.js";
import { bodyOf } from "../cards/request_body.js";
import { PageElement } from "../core/element.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";

/** @type {Record<string, [string, string]>} */
const LOOKS = {
  trusted: ["done", "shield-check"],
  denied: ["wrong", "shield-alert"],
  open: ["waiting", "shield-question-mark"],
  unneeded: ["", "circle-check"],
};

class TrustReview extends PageElement {
  static properties = { trust: { attribute: false }, mayDecide: { attribute: false }, decide: { attribute: false } };

  constructor() {
    super();
    /** As the server shows it. @type {any} */
    this.trust = null;
    this.mayDecide = false;
    /** @type {(answer: "allow" | "deny" | "revoke", digest: string) => void} */
    this.decide = () => {};
  }

  render() {
    const { trust } = this;
    if (!trust) return nothing;
    const [look, name] = LOOKS[trust.state] ?? ["", "circle"];
    return html`<div class="card trust-review">
      ${trust.params ? nothing : html`<p><code>${trust.path}</code></p>`}
      <p><span class="badge ${look}">${icon(name)}${t(/** @type {StringKey} */ (`settings.trust.state.${trust.state}`))}</span>
        <span class="small">${t(/** @type {StringKey} */ (`settings.trust.about.${trust.state}`))}</span></p>
      ${trust.mode === "ask" ? nothing : html`<p class="small">${t(trust.mode === "all" ? "settings.trust.mode_all" : "settings.trust.mode_none")}</p>`}
      ${trust.params ? bodyOf({ tool_name: "trust", params: trust.params }, null) : nothing}
      ${this.mayDecide && trust.mode === "ask" && trust.state !== "unneeded" ? this._buttons(trust) : nothing}
    </div>`;
  }

  /** @param {any} trust */
  _buttons({ state, digest, path }) {
    return html`<div class="form-actions">
      ${state === "trusted" ? nothing : html`<button type="button" class="button primary" @click=${() => this.decide("allow", digest)}>${t("cards.trust")}</button>`}
      ${state === "denied" ? nothing : html`<button type="button" class="button danger" @click=${() => this.decide("deny", digest)}>${t("cards.no_trust")}</button>`}
      ${state === "open"
        ? nothing
        : html`<c-confirm-button .label=${t("settings.revoke")} .about=${path} .run=${() => this.decide("revoke", "")}></c-confirm-button>`}
    </div>`;
  }
}

customElements.define("c-trust-review", TrustReview);
