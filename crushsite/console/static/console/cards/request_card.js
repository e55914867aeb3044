// What the cards of permission requests and of questions share: head, countdown, the guard against
// presses that were meant for something else, keys, and who answered.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { duration, iso, when } from "../core/format.js";
import { icon } from "../core/icons.js";
import { hasLetterKeys, registerKeys, shownKey, watchLetterKeys } from "../core/keys.js";
import { rightsIn } from "../core/rights.js";
import { t } from "../core/strings.js";
import { GUARD_MS, isTrust } from "./answering.js";
import { endOf, headOf } from "./words.js";

/** @typedef {{key: string, label: StringKey, run: () => void}} CardKey */

export class RequestCard extends PageElement {
  static properties = {
    item: { attribute: false },
    feed: { attribute: false },
    isActive: { attribute: false },
    place: { attribute: false },
    _isArmed: { state: true },
    _isBusy: { state: true },
    _answered: { state: true },
    _error: { state: true },
    _can: { state: true },
    _now: { state: true },
  };

  constructor() {
    super();
    /** @type {WaitingItem | null} */
    this.item = null;
    /** @type {SessionFeed | null} */
    this.feed = null;
    /** Whether the keyboard's shortcuts are for this card. */
    this.isActive = false;
    /** Where the request comes from, outside of its session's page. @type {{workspace: string, session: string, href: string} | null} */
    this.place = null;
    this._isArmed = false;
    this._isBusy = false;
    /** The answer that counts, until the stream or the list has it. @type {Record<string, any> | null} */
    this._answered = null;
    this._error = "";
    /** The person's rights in the workspace, once they are known. @type {Set<string> | null} */
    this._can = null;
    this._now = Date.now() / 1000;
    this._hadFocus = false;
    this._keysFrom = 0;
    /** @type {(() => void) | null} */
    this._leaveKeys = null;
  }

  connectedCallback() {
    super.connectedCallback();
    this._leaveLetters = watchLetterKeys(() => this.requestUpdate());
    this._guard = setTimeout(() => (this._isArmed = true), GUARD_MS);
    this._clock = setInterval(() => {
      if (this.item?.data["deny_at"] && !this.resolution) this._now = Date.now() / 1000;
    }, 1000);
    rightsIn(this.item?.workspaceId ?? "").then(
      (can) => (this._can = can),
      () => {}, // the server refuses what is not allowed
    );
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._leaveLetters?.();
    clearTimeout(this._guard);
    clearInterval(this._clock);
    this._leaveKeys?.();
    this._leaveKeys = null;
  }

  /** Whether its keys work now, so that its buttons name them. */
  get hasKeys() {
    return this.isActive && hasLetterKeys();
  }

  /** @returns {CardKey[]} */
  keys() {
    return [];
  }

  /** @param {() => void} run */
  _pressed(run) {
    if (performance.now() - this._keysFrom >= GUARD_MS && this._isArmed && !this._isBusy) run();
  }

  /** @returns {Record<string, any> | null} */
  get resolution() {
    return this.item?.resolution ?? this._answered;
  }

  get mayAnswer() {
    return this._can === null || (this.item !== null && this._can.has(isTrust(this.item) ? "trust" : "answer"));
  }

  get canAnswer() {
    return this.resolution === null && this.mayAnswer;
  }

  /** @param {Map<string, any>} changed */
  willUpdate(changed) {
    if (changed.has("isActive") && this.isActive) this._keysFrom = performance.now();
    this._hadFocus = this.contains(document.activeElement);
  }

  updated() {
    const takesKeys = this.isActive && this.canAnswer;
    if (takesKeys && this._leaveKeys === null) {
      this._leaveKeys = registerKeys(this.keys().map((each) => ({ key: each.key, label: t(each.label), run: () => this._pressed(each.run) })));
    } else if (!takesKeys && this._leaveKeys !== null) {
      this._leaveKeys();
      this._leaveKeys = null;
    }
    // What had the focus may be gone: the card itself keeps it.
    if (this._hadFocus && !this.contains(document.activeElement)) this.focusCard();
  }

  focusCard() {
    /** @type {HTMLElement | null} */ (this.querySelector("article"))?.focus({ preventScroll: true });
  }

  /** Sends an answer, and keeps whose counts. @param {() => Promise<Record<string, any>>} send @returns {Promise<boolean>} */
  async answer(send) {
    if (this._isBusy) return false;
    this._isBusy = true;
    this._error = "";
    try {
      const reply = await send();
      this._answered = reply;
      this.emit("answered", { id: this.item?.id, reply });
      return true;
    } catch (error) {
      this._error = error instanceof Error ? error.message : String(error);
      return false;
    } finally {
      this._isBusy = false;
    }
  }

  /**
   * @param {unknown} body @param {unknown} footer
   */
  frame(body, footer) {
    const { item } = this;
    if (item === null) return nothing;
    const { resolution } = this;
    const head = headOf(item);
    const look = resolution ? "resolved" : item.data["dangerous"] ? "dangerous" : "open";
    return html`<article class="request-card ${look}" tabindex="-1" aria-label="${head.title}: ${head.subject}">
      <header class="request-head">
        ${icon(head.icon)}
        ${this.place ? html`<h3>${head.title}</h3>` : html`<h2>${head.title}</h2>`}
        ${resolution ? html`<span class="cut mono small request-subject">${head.subject}</span>` : html`<span class="badge waiting">${icon("hourglass")}${t("cards.waits")}</span>`}
        ${this._asked(item)}
      </header>
      ${this._origin(item)}
      ${resolution ? this._end(item, resolution) : html`<div class="request-body">${this._warnings(item)}${body}</div>`}
      ${resolution ? nothing : this._footer(item, footer)}
    </article>`;
  }

  /** @param {WaitingItem} item @param {unknown} footer */
  _footer(item, footer) {
    if (this.mayAnswer) return html`<footer class="request-foot">${footer}</footer>`;
    return html`<footer class="request-foot"><p class="quiet small">${t(isTrust(item) ? "cards.no_right_trust" : "cards.no_right")}</p></footer>`;
  }

  /** @param {WaitingItem} item */
  _asked(item) {
    const at = item.data["asked_at"];
    return at ? html`<time class="quiet small request-time" datetime=${iso(at)}>${when(at)}</time>` : nothing;
  }

  /** The workspace, the session, and the agents between it and the call. @param {WaitingItem} item */
  _origin(item) {
    const agents = (item.data["agent_path"] ?? []).slice(1).map((/** @type {any} */ each) => each.title || each.session_id);
    if (this.place === null && agents.length === 0) return nothing;
    return html`<p class="request-origin small quiet">
      ${this.place ? html`<span>${this.place.workspace}</span>${this.place.href ? html`<a href=${this.place.href}>${this.place.session}</a>` : nothing}` : nothing}
      ${agents.length > 0 ? html`<span>${icon("bot")} ${t("cards.agent")}: ${agents.join(" › ")}</span>` : nothing}
    </p>`;
  }

  /** @param {WaitingItem} item */
  _warnings(item) {
    const left = item.data["deny_at"] ? item.data["deny_at"] - this._now : null;
    const output = item.data["cut_output"];
    const isCut = output !== undefined;
    return html`${isCut ? html`<p class="request-warning">${icon("shield-alert")}<strong>${t("cards.cut")}.</strong> ${t("cards.cut_help")}</p>` : nothing}
      ${output ? html`<p class="label">${t("cards.cut_output")}</p><pre class="request-command" tabindex="0">${output}</pre>` : nothing}
      ${item.data["dangerous"] || (item.data["always_asks"] && !isCut)
        ? html`<p class="request-warning">${icon("shield-alert")}<strong>${t("cards.danger")}.</strong> ${t("cards.once")}</p>`
        : nothing}
      ${left === null
        ? nothing
        : html`<p class="small request-countdown">${icon("clock")} ${t(item.kind === "approval" ? "cards.deny_at" : "cards.dismiss_at", { time: duration(left) })}</p>`}`;
  }

  /** @param {WaitingItem} item @param {Record<string, any>} resolution */
  _end(item, resolution) {
    const end = endOf(resolution);
    const at = resolution["answered_at"];
    return html`<p class="request-end ${end.look}">${icon(end.icon)} <span>${end.text}</span>
        ${at ? html`<time class="quiet small" datetime=${iso(at)}>${when(at)}</time>` : nothing}</p>
      ${resolution["reason"] ? html`<p class="small request-reason">${t("ends.reason", { reason: resolution["reason"] })}</p>` : nothing}
      ${this.endDetails(item, resolution)}`;
  }

  /** What an answered card shows besides. @param {WaitingItem} _item @param {Record<string, any>} _resolution @returns {unknown} */
  endDetails(_item, _resolution) {
    return nothing;
  }

  error() {
    return this._error ? html`<p class="wrong" role="alert">${this._error}</p>` : nothing;
  }

  /** @param {string} name */
  keyHint(name) {
    return this.hasKeys ? html`<kbd aria-hidden="true">${shownKey(name)}</kbd>` : nothing;
  }
}
