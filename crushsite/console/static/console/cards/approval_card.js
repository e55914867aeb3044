// A tool call that waits for a person: what it would do, and the answers to it.

import { html, nothing } from "../vendor/lit.js";
import { t } from "../core/strings.js";
import { answerApproval, detailOf, isTrust } from "./answering.js";
import "./arguments_form.js";
import { bodyOf } from "./request_body.js";
import { RequestCard } from "./request_card.js";
import "./scope_form.js";

class ApprovalCard extends RequestCard {
  static properties = { ...RequestCard.properties, _mode: { state: true }, _detail: { state: true }, _fault: { state: true } };

  constructor() {
    super();
    /** @type {"" | "scope" | "reason" | "edit"} */
    this._mode = "";
    /** @type {Record<string, any> | null} */
    this._detail = null;
    this._fault = "";
  }

  connectedCallback() {
    super.connectedCallback();
    if (this.item && !isTrust(this.item) && !this.resolution) void this._load(this.item);
  }

  /** @param {WaitingItem} item */
  async _load(item) {
    try {
      this._detail = await detailOf(item);
    } catch (error) {
      this._detail = {};
      this._error = error instanceof Error ? error.message : String(error);
    }
  }

  keys() {
    return [
      { key: "a", label: /** @type {const} */ ("cards.allow"), run: () => void this._send({ answer: "allow" }) },
      { key: "d", label: /** @type {const} */ ("cards.deny"), run: () => void this._send({ answer: "deny" }) },
      { key: "r", label: /** @type {const} */ ("cards.deny_reason"), run: () => this._mayGiveReason && this._open("reason") },
      { key: "f", label: /** @type {const} */ ("cards.allow_for"), run: () => this._hasScopes && this._open("scope") },
      { key: "e", label: /** @type {const} */ ("cards.edit"), run: () => this._canEdit && this._open("edit") },
    ];
  }

  get _hasScopes() {
    return this.item !== null && !isTrust(this.item) && !this.item.data["always_asks"];
  }

  get _mayGiveReason() {
    return this.item !== null && !isTrust(this.item);
  }

  get _isCut() {
    return this.item?.data["cut_output"] !== undefined;
  }

  get _canEdit() {
    return Object.keys(this._detail?.["schema"] ?? {}).length > 0;
  }

  /** @param {"" | "scope" | "reason" | "edit"} mode */
  _open(mode) {
    this._mode = mode;
    this._error = this._fault = "";
    void this.updateComplete.then(() => {
      const field = mode === "reason" ? this.querySelector("textarea") : mode === "" ? this.querySelector(".request-buttons button") : null;
      /** @type {HTMLElement | null} */ (field)?.focus();
    });
  }

  /** @param {Record<string, any>} fields */
  async _send(fields) {
    const { item } = this;
    if (item === null || !this.canAnswer) return;
    await this.answer(() => answerApproval(item, fields));
  }

  /** @param {Event} event */
  _deny(event) {
    event.preventDefault();
    const reason = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("reason") ?? "").trim();
    this._fault = reason ? "" : t(this._isCut ? "cards.not_again_missing" : "cards.reason_missing");
    if (reason) void this._send({ answer: "deny", reason });
  }

  /** @param {KeyboardEvent} event */
  _keyed(event) {
    if (event.key === "Escape" && this._mode !== "") {
      event.preventDefault();
      this._open("");
    }
  }

  render() {
    const { item } = this;
    if (item === null) return nothing;
    return this.frame(
      bodyOf(item.data, this._detail),
      html`<div @keydown=${this._keyed} @back=${() => this._open("")}>${this._controls(item)}</div>`,
    );
  }

  /** @param {WaitingItem} item */
  _controls(item) {
    if (this._mode === "scope") {
      return html`<c-scope-form .request=${item.data} .error=${this._error}
        @chosen=${(/** @type {CustomEvent} */ event) => void this._send({ answer: "allow", ...event.detail })}></c-scope-form>`;
    }
    if (this._mode === "edit") {
      return html`<c-arguments-form .values=${this._detail?.["arguments"] ?? {}} .schema=${this._detail?.["schema"] ?? {}} .error=${this._error}
        @edited=${(/** @type {CustomEvent} */ event) => void this._send({ answer: "allow", arguments: event.detail })}></c-arguments-form>`;
    }
    return this._mode === "reason" ? this._reason() : this._buttons(item);
  }

  _reason() {
    return html`<form class="request-form" @submit=${this._deny}>
      <label class="field"><span class="label">${t("cards.reason_label")}</span>
        <textarea class="input" name="reason" rows="2" @keydown=${(/** @type {KeyboardEvent} */ event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          /** @type {HTMLTextAreaElement} */ (event.target).form?.requestSubmit();
        }}></textarea>
        <span class="help">${t(this._isCut ? "cards.not_again_help" : "cards.reason_help")}</span></label>
      ${this._fault ? html`<p class="wrong" role="alert">${this._fault}</p>` : this.error()}
      <div class="request-buttons">
        <button class="button danger">${t(this._isCut ? "cards.not_again_send" : "cards.reason_send")}</button>
        <button class="button" type="button" @click=${() => this._open("")}>${t("cards.back")}</button>
      </div>
    </form>`;
  }

  /** @param {WaitingItem} item */
  _buttons(item) {
    const isForTrust = isTrust(item);
    const isOff = !this._isArmed;
    const isCut = this._isCut;
    return html`${this.error()}
      <div class="request-buttons main">
        <button class="button primary" ?disabled=${isOff} aria-keyshortcuts=${this.hasKeys ? "a" : nothing} @click=${() => this._send({ answer: "allow" })}>
          ${t(isForTrust ? "cards.trust" : isCut ? "cards.again" : "cards.allow")}${this.keyHint("a")}</button>
        <button class="button danger" ?disabled=${isOff} aria-keyshortcuts=${this.hasKeys ? "d" : nothing} @click=${() => this._send({ answer: "deny" })}>
          ${t(isForTrust ? "cards.no_trust" : isCut ? "cards.not_again" : "cards.deny")}${this.keyHint("d")}</button>
      </div>
      ${isForTrust
        ? nothing
        : html`<div class="request-buttons more">
            ${this._hasScopes ? html`<button class="button" ?disabled=${isOff} aria-keyshortcuts=${this.hasKeys ? "f" : nothing} @click=${() => this._open("scope")}>${t("cards.allow_for")}${this.keyHint("f")}</button>` : nothing}
            ${this._canEdit ? html`<button class="button" ?disabled=${isOff} aria-keyshortcuts=${this.hasKeys ? "e" : nothing} @click=${() => this._open("edit")}>${t("cards.edit")}${this.keyHint("e")}</button>` : nothing}
            <button class="button" ?disabled=${isOff} aria-keyshortcuts=${this.hasKeys ? "r" : nothing} @click=${() => this._open("reason")}>${t(isCut ? "cards.not_again_reason" : "cards.deny_reason")}${this.keyHint("r")}</button>
          </div>`}`;
  }
}

customElements.define("c-approval-card", ApprovalCard);
