// The page of one session: its conversation, what waits for an answer, and the composer.

import { html, nothing } from "../vendor/lit.js";
import { ApiError } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { missing } from "../core/empty.js";
import { placeOf } from "../core/routes.js";
import { t } from "../core/strings.js";
import { attempt, notifyError } from "../core/toasts.js";
import { SessionFeed } from "../stream/session_feed.js";
import "../cards/cards.js";
import "../composer/composer.js";
import "../queue/queue.js";
import "./session_header.js";
import "./transcript.js";

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
  }

  connectedCallback() {
    super.connectedCallback();
    const feed = new SessionFeed(this.workspaceId, this.sessionId);
    this._feed = feed;
    feed.subscribe((changes) => {
      if (["all", "status", "session", "closed"].some((topic) => changes.has(topic))) this._changed();
    });
    this._visible = () => this._show();
    document.addEventListener("visibilitychange", this._visible);
    this._moved = () => void this._showMessage();
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
              <c-cards .feed=${feed}></c-cards>
              <c-queue .feed=${feed}></c-queue>
              <c-composer .feed=${feed}></c-composer>
            </div>`}
    </div>`;
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
