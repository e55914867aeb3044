// What waits for an answer in this session: permission requests and questions. One is open, the others
// are lines above it. What somebody has answered stays until it could be read.

import { html, nothing, repeat } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { ApiError } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { notify } from "../core/toasts.js";
import { detailOf } from "./answering.js";
import "./approval_card.js";
import "./question_card.js";
import { endOf, headOf } from "./words.js";

const READ_SECONDS = 8;
const OWN_SECONDS = 4; // whoever has answered needs less time to read it

/** @param {WaitingItem} item @param {Record<string, unknown>} [more] @returns {unknown} */
export function cardOf(item, { feed = null, isActive = false, place = null } = /** @type {any} */ ({})) {
  return item.kind === "approval"
    ? html`<c-approval-card data-item=${item.id} .item=${item} .feed=${feed} .isActive=${isActive} .place=${place}></c-approval-card>`
    : html`<c-question-card data-item=${item.id} .item=${item} .feed=${feed} .isActive=${isActive} .place=${place}></c-question-card>`;
}

/** @typedef {{item: WaitingItem, isOwn: boolean, isLinked: boolean, seconds: number}} Entry */

class Cards extends PageElement {
  static properties = { feed: { attribute: false }, isLater: { attribute: false }, _active: { state: true } };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    /** Whether the first cards came while the page was open. */
    this.isLater = false;
    /** In the order in which they were requested. @type {Map<string, Entry>} */
    this._entries = new Map();
    /** The one that the person has chosen. */
    this._active = "";
    this._isFirst = true;
    this._moved = () => void this._openLinked();
  }

  connectedCallback() {
    super.connectedCallback();
    this._leave = this.feed?.subscribe((changes) => {
      if (["all", "permissions", "questions"].some((topic) => changes.has(topic))) this._take();
    });
    this._clock = setInterval(() => this._tick(), 1000);
    addEventListener("popstate", this._moved);
    this._isFirst = !this.isLater;
    this._take();
    void this._openLinked();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._leave?.();
    clearInterval(this._clock);
    removeEventListener("popstate", this._moved);
  }

  _take() {
    const state = this.feed?.state;
    if (!state) return;
    for (const request of state.permissions.values()) this._add("approval", request);
    for (const batch of state.questions.values()) this._add("questions", batch);
    for (const [id, entry] of this._entries) {
      if (entry.item.resolution || state.permissions.has(id) || state.questions.has(id)) continue;
      const resolution = state.resolutions.get(id);
      if (resolution) this._end(entry, resolution);
      else void this._lookUp(entry);
    }
    this._isFirst = false;
    this.requestUpdate();
  }

  /** @param {"approval" | "questions"} kind @param {Record<string, any>} data */
  _add(kind, data) {
    if (this._entries.has(data["id"])) return;
    const item = { kind, id: data["id"], workspaceId: this.feed?.workspaceId ?? "", data, resolution: null };
    this._entries.set(item.id, { item, isOwn: false, isLinked: false, seconds: 0 });
    const { title, subject } = headOf(item);
    announce(t("cards.announce", { title, subject }), { urgent: !this._isFirst });
  }

  /** It was answered while this page had no connection. @param {Entry} entry */
  async _lookUp(entry) {
    const found = await detailOf(entry.item).catch((error) => (error.status === 404 ? /** @type {Record<string, any>} */ ({}) : null));
    if (found !== null && found["state"] !== "pending") this._end(entry, found);
  }

  /** @param {Entry} entry @param {Record<string, any>} resolution */
  _end(entry, resolution) {
    const current = this._entries.get(entry.item.id);
    if (!current || current.item.resolution) return;
    this._entries.set(entry.item.id, { ...current, item: { ...current.item, resolution } });
    const end = endOf(resolution);
    announce(t("cards.announce_end", { title: headOf(entry.item).title, end: end.text }));
    this.requestUpdate();
  }

  /** Answered cards leave after somebody could read them. */
  _tick() {
    if (document.hidden) return;
    for (const [id, entry] of this._entries) {
      if (!entry.item.resolution || entry.isLinked) continue;
      const card = this.querySelector(`[data-item="${CSS.escape(id)}"]`);
      if (card?.matches(":hover")) continue;
      entry.seconds += 1;
      if (entry.seconds >= (entry.isOwn ? OWN_SECONDS : READ_SECONDS)) this._remove(id, card);
    }
  }

  /** @param {string} id @param {Element | null} card */
  _remove(id, card) {
    const hadFocus = card?.contains(document.activeElement) ?? false;
    this._entries.delete(id);
    this.requestUpdate();
    if (!hadFocus) return;
    void this.updateComplete.then(() => {
      const next = this.querySelector("article") ?? document.querySelector(".transcript") ?? document.getElementById("content");
      /** @type {HTMLElement | null} */ (next)?.focus({ preventScroll: true });
    });
  }

  /** The address may name a request: `?approval=` or `?questions=`. */
  async _openLinked() {
    const { feed } = this;
    const query = new URLSearchParams(location.search);
    const kind = query.has("approval") ? "approval" : "questions";
    const id = query.get(kind);
    if (!id || !feed?.state) return;
    if (!this._entries.has(id)) {
      const item = /** @type {WaitingItem} */ ({ kind, id, workspaceId: feed.workspaceId, data: {}, resolution: null });
      try {
        const data = await detailOf(item);
        const resolution = data["state"] === "pending" ? null : data;
        this._entries.set(id, { item: { ...item, data, resolution }, isOwn: false, isLinked: true, seconds: 0 });
      } catch (error) {
        notify(error instanceof ApiError && error.status !== 404 ? error.message : t("cards.unknown"));
        return;
      }
    }
    this._show(id);
  }

  /** @param {string} id */
  _show(id) {
    this._active = id;
    this.requestUpdate();
    void this.updateComplete.then(async () => {
      const card = /** @type {any} */ (this.querySelector(`[data-item="${CSS.escape(id)}"]`));
      await card?.updateComplete;
      card?.focusCard();
      card?.scrollIntoView({ block: "nearest" });
    });
  }

  render() {
    const entries = [...this._entries.values()];
    const open = entries.filter((each) => !each.item.resolution);
    const active = open.find((each) => each.item.id === this._active) ?? open[0];
    if (entries.length === 0) return nothing;
    return html`<section class="cards" aria-label=${t("cards.label")} @answered=${this._answered}>
      ${repeat(entries, (each) => each.item.id, (each) =>
        each.item.resolution || each === active
          ? cardOf(each.item, { feed: this.feed, isActive: each === active })
          : this._line(each.item))}
    </section>`;
  }

  /** @param {CustomEvent} event */
  _answered(event) {
    const { id, reply } = event.detail;
    const entry = this._entries.get(id);
    if (!entry) return;
    entry.isOwn = reply.resolved === true;
    if (reply.state) this._end(entry, reply);
  }

  /** @param {WaitingItem} item */
  _line(item) {
    const { title, subject, icon: name } = headOf(item);
    return html`<button class="request-line" aria-label=${t("cards.show", { title, subject })} @click=${() => this._show(item.id)}>
      ${icon(name)}<span>${title}</span><span class="cut mono small">${subject}</span>${icon("chevron-down")}
    </button>`;
  }
}

customElements.define("c-cards", Cards);
