// A session in the results of a search: its title, and the messages that match.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { iso, moment, when } from "../core/format.js";
import { icon } from "../core/icons.js";
import { sessionAddress } from "../core/routes.js";
import { t } from "../core/strings.js";
import { markedPieces } from "./marks.js";

/** @typedef {Schemas["Found"]} Found */

/** @param {Found} found */
const snippet = (found) =>
  markedPieces(found.snippet, found.highlights).map((piece) => (piece.isMarked ? html`<mark>${piece.text}</mark>` : piece.text));

class FoundSession extends PageElement {
  static properties = { items: { attribute: false }, workspace: { attribute: false } };

  constructor() {
    super();
    /** @type {Found[]} */
    this.items = [];
    this.workspace = "";
  }

  render() {
    const [first] = this.items;
    if (!first) return nothing;
    const title = this.items.find((each) => each.kind === "session");
    const messages = this.items.filter((each) => each.kind === "message");
    const address = sessionAddress(first.workspace_id, first.session_id);
    return html`<section class="card found-session">
      <header class="found-head">
        <h2 data-match=${first.session_id}><a href=${address}>${title ? snippet(title) : first.session_title || t("session.untitled")}</a></h2>
        ${this.workspace ? html`<span class="quiet small found-workspace">${icon("folder")}<span class="cut">${this.workspace}</span></span>` : nothing}
        ${title ? this._time(title) : nothing}
      </header>
      ${messages.length > 0 ? html`<ul class="found-messages">${messages.map((each) => this._message(each, address))}</ul>` : nothing}
    </section>`;
  }

  /** @param {Found} found @param {string} address */
  _message(found, address) {
    const isPrompt = found.role === "user";
    return html`<li data-match=${found.message_id}><a class="found-message" href="${address}?message=${encodeURIComponent(found.message_id ?? "")}">
      <span class="found-from quiet small">${icon(isPrompt ? "user" : "bot")}<span>${t(isPrompt ? "find.you" : "find.reply")}</span>${this._time(found)}</span>
      <span class="found-text">${snippet(found)}</span>
    </a></li>`;
  }

  /** @param {Found} found */
  _time(found) {
    return html`<time class="quiet small" datetime=${iso(found.created_at)} title=${moment(found.created_at)}>${when(found.created_at)}</time>`;
  }
}

customElements.define("c-found-session", FoundSession);
