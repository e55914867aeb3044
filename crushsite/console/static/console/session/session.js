// The page of one session: its conversation, what waits for an answer, and the composer.

import { html, nothing } from "../vendor/lit.js";
import { ApiError } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { missing } from "../core/empty.js";
import { later } from "../core/later.js";
import { placeOf } from "../core/routes.js";
import { t } from "../core/strings.js";
import { attempt, notifyError } from "../core/toasts.js";
import { SessionFeed } from "../stream/session_feed.js";
import "../composer/composer.js";
import "./session_header.js";
import "./transcript.js";

// Most visits need neither.
const cardsOf = later(() => import("../cards/cards.js"));
const queueOf = later(() => import("../queue/queue.js"));
const SHOWN = ["all", "status", "session", "closed", "permissions", "questions", "runs"];

class SessionPage extends PageElement {
  static properties = {
    workspaceId: { attribute: false },
    sessionId: { attribute: false },
    _feed: { state: true },
  };

  constructor() {
    super();
    this.workspaceId = "";
    this.sessionId = "";
    /** @type {SessionFeed | null} */
    this._feed = null;
    this._status = "";
    /** Whether there were cards since the page was opened, and whether there were none at first. */
    this._hasCards = false;
    this._hadNone = false;
    this._hasQueue = false;
  }

  connectedCallback() {
    super.connectedCallback();
    const feed = new SessionFeed(this.workspaceId, this.sessionId);
    this._feed = feed;
    feed.subscribe((changes) => {
      if (SHOWN.some((topic) => changes.has(topic))) this._changed();
    });
    this._visible = () => this._show();
    document.addEventListener("visibilitychange", this._visible);
    this._moved = () => {
      this.requestUpdate();
      void this._showMessage();
    };
    addEventListener("popstate", this._moved);
    void feed.loaded().then(this._moved);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    if (this._visible) document.removeEventListener("visibilitychange", this._visible);
    if (this._moved) removeEventListener("popstate", this._moved);
    this._feed?.close();
    this._feed = null;
  }

  _changed() {
    this.requestUpdate();
    const title = this._feed?.state?.session?.title;
    document.title = `${title || t("session.untitled")} – ${t("app.name")}`;
    if (this._feed?.status === "live" && this._status !== "live") this._show();
    this._status = this._feed?.status ?? "";
  }

  /** Lets the server know whether this session is looked at: then nobody is notified of it. */
  _show() {
    if (this._feed?.status !== "live") return;
    void this._feed.send("show", { session_id: document.hidden ? "" : this.sessionId }).catch(() => {});
  }

  /** Shows the message that the address names: `?message=`. */
  async _showMessage() {
    const id = new URLSearchParams(location.search).get("message");
    if (!id || placeOf(location.pathname).session !== this.sessionId) return;
    this.requestUpdate();
    await this.updateComplete;
    const transcript = /** @type {any} */ (this.querySelector("c-transcript"));
    const isShown = transcript ? await attempt(() => transcript.show(id)) : true;
    if (isShown === false) notifyError(t("find.missing_message"));
  }

  render() {
    const feed = this._feed;
    if (!feed) return nothing;
    if (feed.state === null && feed.error instanceof ApiError && feed.error.status === 404) {
      return html`<div role="alert">${missing(t("session.missing"), t("app.to_board"))}</div>`;
    }
    return html`<div class="session">
      <c-session-header .feed=${feed}></c-session-header>
      ${this._connection(feed)}
      ${feed.state === null
        ? this._missing(feed)
        : html`<c-transcript .feed=${feed}></c-transcript>
            <div class="session-foot">
              ${this._cards(feed, feed.state)} ${this._queue(feed, feed.state)}
              <c-composer .feed=${feed}></c-composer>
            </div>`}
    </div>`;
  }

  /** They stay once they are there, because they show what was answered. @param {SessionFeed} feed @param {SessionState} state */
  _cards(feed, state) {
    const isLinked = /[?&](?:approval|questions)=/.test(location.search);
    this._hasCards ||= state.permissions.size > 0 || state.questions.size > 0 || isLinked;
    this._hadNone ||= !this._hasCards;
    return this._hasCards && cardsOf(this) ? html`<c-cards .feed=${feed} .isLater=${this._hadNone}></c-cards>` : nothing;
  }

  /** @param {SessionFeed} feed @param {SessionState} state */
  _queue(feed, state) {
    this._hasQueue ||= state.queue.length > 0 || state.next !== undefined;
    return this._hasQueue && queueOf(this) ? html`<c-queue .feed=${feed}></c-queue>` : nothing;
  }

  /** @param {SessionFeed} feed */
  _connection(feed) {
    if (feed.status === "live" || feed.status === "loading" || feed.state === null) return nothing;
    if (feed.status === "connecting") return nothing;
    return html`<p class="connection ${feed.status}" role="status">
      ${t(feed.status === "ended" ? "connection.ended" : "connection.lost")}
      ${feed.status === "lost"
        ? html`<button class="link" @click=${() => feed.retryNow()}>${t("connection.retry")}</button>`
        : nothing}
    </p>`;
  }

  /** @param {SessionFeed} feed */
  _missing(feed) {
    if (feed.error === null) return html`<p class="quiet" role="status">${t("state.loading")}</p>`;
    return html`<div class="notice" role="alert">
      <p>${feed.error.message}</p>
      <button class="button" @click=${() => void feed.load()}>${t("error.retry")}</button>
    </div>`;
  }
}

customElements.define("c-session", SessionPage);
