// What waits for answers in all workspaces, and below it what was answered.

import { html, nothing, repeat } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { get, query } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { empty } from "../core/empty.js";
import { nameOf } from "../core/format.js";
import { sessionAddress } from "../core/routes.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { detailOf, isTrust } from "./answering.js";
import { cardOf } from "./cards.js";
import "./notification_switch.js";
import { itemOf, waiting } from "./waiting.js";
import { endOf, headOf } from "./words.js";

const PAGE = 20;
const LISTS = /** @type {const} */ (["approvals", "trust-requests", "questions"]);

class Inbox extends PageElement {
  static properties = { _past: { state: true }, _places: { state: true }, _focused: { state: true } };

  constructor() {
    super();
    /** Open ones and those that were answered while the page was open: nothing moves below a finger. @type {Map<string, WaitingItem>} */
    this._items = new Map();
    /** @type {WaitingItem[] | null} */
    this._past = null;
    /** @type {Record<typeof LISTS[number], string | null>} */
    this._cursors = { approvals: "", "trust-requests": "", questions: "" };
    /** @type {Map<string, {name: string, titles: Map<string, string>}>} */
    this._places = new Map();
    /** The card with the focus has the keys. */
    this._focused = "";
  }

  connectedCallback() {
    super.connectedCallback();
    document.title = `${t("inbox.title")} – ${t("app.name")}`;
    this._leave = waiting.subscribe(() => this._take());
    this._take();
    void this._more();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._leave?.();
  }

  _take() {
    this.requestUpdate();
    if (waiting.items === null) return;
    const open = new Set(waiting.items.map((each) => each.id));
    for (const item of waiting.items) {
      if (this._items.get(item.id)?.data !== item.data && !this._items.get(item.id)?.resolution) this._items.set(item.id, item);
    }
    for (const item of this._items.values()) if (!item.resolution && !open.has(item.id)) void this._ended(item);
    if (waiting.items.some((each) => !this._isPlaced(each))) void this._readPlaces();
  }

  /** A folder's trust belongs to no session. @param {WaitingItem} item */
  _isPlaced(item) {
    const place = this._places.get(item.workspaceId);
    return place !== undefined && (isTrust(item) || place.titles.has(item.data["session_id"]));
  }

  /** Somebody has answered it: the card shows who. @param {WaitingItem} item */
  async _ended(item) {
    const found = await detailOf(item).catch(() => null);
    if (found === null || found["state"] === "pending") return;
    this._resolve(item.id, found);
  }

  /** @param {string} id @param {Record<string, any>} resolution */
  _resolve(id, resolution) {
    const item = this._items.get(id);
    if (!item || item.resolution) return;
    this._items.set(id, { ...item, resolution });
    announce(t("cards.announce_end", { title: headOf(item).title, end: endOf(resolution).text }));
    this.requestUpdate();
  }

  async _readPlaces() {
    const board = await get("board").catch(() => null);
    if (board === null) return;
    const places = new Map();
    for (const each of board.items) {
      places.set(each.id, { name: each.name || nameOf(each.path), titles: new Map(each.sessions.map((/** @type {any} */ one) => [one.id, one.title])) });
    }
    this._places = places;
  }

  async _more() {
    const pages = await attempt(() =>
      Promise.all(
        LISTS.map(async (list) => {
          const cursor = this._cursors[list];
          if (cursor === null) return [];
          const page = await get(`${list}${query({ state: "past", limit: PAGE, cursor })}`);
          this._cursors[list] = page.next;
          return page.items.map((/** @type {any} */ each) => itemOf(list === "questions" ? "questions" : "approval", each));
        }),
      ),
    );
    if (pages === undefined) return;
    this._past = [...(this._past ?? []), ...pages.flat()].sort((one, other) => other.data["asked_at"] - one.data["asked_at"]);
  }

  /** @param {WaitingItem} item */
  _placeOf(item) {
    const sessionId = item.data["session_id"];
    const place = this._places.get(item.workspaceId);
    if (isTrust(item)) return { workspace: place?.name ?? nameOf(item.data["path"]), session: "", href: "" };
    const title = item.data["agent_path"]?.[0]?.title || place?.titles.get(sessionId) || t("session.untitled");
    const name = item.kind === "approval" ? "approval" : "questions";
    return { workspace: place?.name ?? "", session: title, href: `${sessionAddress(item.workspaceId, sessionId)}${query({ [name]: item.id })}` };
  }

  /** @param {FocusEvent} event */
  _focus(event) {
    const card = event.target instanceof Element ? event.target.closest("[data-item]") : null;
    this._focused = card?.getAttribute("data-item") ?? "";
  }

  render() {
    const items = [...this._items.values()];
    const open = items.filter((each) => !each.resolution);
    const active = open.find((each) => each.id === this._focused) ?? open[0];
    const past = (this._past ?? []).filter((each) => !this._items.has(each.id));
    return html`<div class="page inbox">
      <div class="page-head"><h1>${t("inbox.title")}</h1><c-notification-switch></c-notification-switch></div>
      ${waiting.error ? html`<p class="wrong" role="alert">${waiting.error.message}</p>` : nothing}
      <section aria-labelledby="inbox-open" @focusin=${this._focus} @answered=${this._answered}>
        <h2 id="inbox-open">${t("inbox.open")}</h2>
        ${waiting.items === null ? html`<p class="quiet" role="status">${t("state.loading")}</p>` : nothing}
        ${waiting.items !== null && open.length === 0 ? empty("circle-check", t("inbox.empty"), t("inbox.empty_hint")) : nothing}
        <div class="inbox-cards">
          ${repeat(items, (each) => each.id, (each) => cardOf(each, { isActive: each === active, place: this._placeOf(each) }))}
        </div>
      </section>
      <section aria-labelledby="inbox-past">
        <h2 id="inbox-past">${t("inbox.past")}</h2>
        ${this._past !== null && past.length === 0 ? html`<p class="quiet">${t("inbox.past_empty")}</p>` : nothing}
        <div class="inbox-cards">${repeat(past, (each) => each.id, (each) => cardOf(each, { place: this._placeOf(each) }))}</div>
        ${this._past !== null && LISTS.some((list) => this._cursors[list] !== null)
          ? html`<button class="button" @click=${() => void this._more()}>${t("inbox.more")}</button>`
          : nothing}
      </section>
    </div>`;
  }

  /** @param {CustomEvent} event */
  _answered(event) {
    if (event.detail.reply.state) this._resolve(event.detail.id, event.detail.reply);
    void waiting.refresh();
  }
}

customElements.define("c-inbox", Inbox);
