// The session of an agent that a call has started, inside of the call: how far it is, its newest
// messages, and the sessions below it. It has a stream of its own while it is shown. Its messages are
// `c-message`, which has loaded this: an import of it would be a circle, and then no file has a hash.

import { html, nothing, repeat } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { money } from "../core/format.js";
import { icon } from "../core/icons.js";
import { sessionAddress } from "../core/routes.js";
import { t } from "../core/strings.js";
import { visible } from "../text/visible.js";
import { SessionFeed } from "../stream/session_feed.js";

const MOST_MESSAGES = 6;
const DEEPEST = 8;

class ChildSession extends PageElement {
  static properties = { feed: { attribute: false }, sessionId: { attribute: false }, isOver: { attribute: false }, _isShown: { state: true } };

  constructor() {
    super();
    /** The feed of the session around it. @type {SessionFeed | null} */
    this.feed = null;
    this.sessionId = "";
    this.isOver = false;
    this._isShown = false;
    /** @type {SessionFeed | null} */
    this._own = null;
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._close();
  }

  _close() {
    this._own?.close();
    this._own = null;
    this._isShown = false;
  }

  /** @param {Event} event */
  _toggled(event) {
    if (event.target !== event.currentTarget || !this.feed) return;
    if (!(/** @type {HTMLDetailsElement} */ (event.target).open)) {
      this._close();
      return;
    }
    const own = new SessionFeed(this.feed.workspaceId, this.sessionId);
    own.subscribe((changes) => {
      this.requestUpdate();
      for (const row of /** @type {NodeListOf<any>} */ (this.querySelectorAll("c-message"))) if (row.feed === own) row.feedChanged(changes);
    });
    this._own = own;
    this._isShown = true;
  }

  get _session() {
    return this.feed?.state?.children.get(this.sessionId) ?? null;
  }

  render() {
    const session = this._session;
    if (!this.feed || !session) return nothing;
    const isWorking = session.is_busy ?? !this.isOver;
    return html`<div class="child-session">
      <p class="child-head">
        <span class="badge ${isWorking ? "working" : "done"}">${icon(isWorking ? "loader-circle" : "check")}${t(isWorking ? "tool.session_working" : "tool.session_ended")}</span>
        ${session.cost ? html`<span class="quiet small">${money(session.cost)}</span>` : nothing}
        <a href=${sessionAddress(this.feed.workspaceId, this.sessionId)}>${t("tool.session_opens")}</a>
      </p>
      ${this._tree(this.sessionId, 0)}
      <details class="child-conversation" @toggle=${this._toggled}>
        <summary>${icon("message-square")}${t("tool.child_conversation", { title: visible(session.title || t("session.untitled")) })}</summary>
        ${this._isShown ? this._messages() : nothing}
      </details>
    </div>`;
  }

  _messages() {
    const own = this._own;
    if (!own?.state) return html`<p class="quiet small" role="status">${own?.error ? own.error.message : t("state.loading")}</p>`;
    const messages = [...own.state.messages.values()].filter((each) => each.head.role !== "tool").slice(-MOST_MESSAGES);
    return html`<div class="messages nested">
      ${repeat(messages, (each) => each.id, (each) => html`<c-message .feed=${own} .messageId=${each.id}></c-message>`)}
    </div>`;
  }

  /** The sessions that this one has started. @param {string} parent @param {number} depth @returns {unknown} */
  _tree(parent, depth) {
    const children = [...(this.feed?.state?.children.values() ?? [])].filter((each) => each.parent_session_id === parent);
    children.sort((one, other) => (one.created_at ?? 0) - (other.created_at ?? 0));
    const workspace = this.feed?.workspaceId ?? "";
    if (children.length === 0 || depth > DEEPEST) return nothing;
    return html`${depth === 0 ? html`<p class="tool-label">${t("tool.children")}</p>` : nothing}
      <ul class="session-tree">
        ${children.map((each) => html`<li>
          ${icon(each.is_busy ? "loader-circle" : "corner-down-right", each.is_busy ? t("tool.session_working") : t("tool.session_ended"))}
          <a href=${sessionAddress(workspace, each.id)}>${visible(each.title || t("session.untitled"))}</a>${this._tree(each.id, depth + 1)}
        </li>`)}
      </ul>`;
  }
}

customElements.define("c-child-session", ChildSession);
