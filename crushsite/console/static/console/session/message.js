// One message of the conversation: its parts in order, each drawn for what it is.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { iso, moment, when } from "../core/format.js";
import { icon } from "../core/icons.js";
import { later } from "../core/later.js";
import { t } from "../core/strings.js";
import "../changes/message_menu.js";
import "../text/markdown.js";
import { visible } from "../text/visible.js";
import { finishNote, retryNote } from "./notes.js";
import { reasoning } from "./reasoning.js";
import { runsOf } from "./run_index.js";

const callOf = later(() => import("../tools/tool_call.js"));
const attachmentOf = later(() => import("./attachment.js"));

class Message extends PageElement {
  static properties = { feed: { attribute: false }, messageId: { attribute: false } };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    this.messageId = "";
  }

  /** Called by the transcript, because a subscription for each message would cost more. @param {Set<string>} changes */
  feedChanged(changes) {
    const id = this.messageId;
    const message = this.feed?.state?.messages.get(id);
    if (["all", "run details", id, `output ${id}`].some((topic) => changes.has(topic))) this.requestUpdate();
    else if (changes.has("runs") && message && this._showsRun(message)) this.requestUpdate();
    if (!message?.parts.some((part) => part.type === "tool_call")) return;
    for (const part of /** @type {NodeListOf<any>} */ (this.querySelectorAll("c-tool-call"))) {
      if (part.feed === this.feed) part.feedChanged(changes);
    }
  }

  /** Whether it ended a run that is known, or may offer to repeat one. @param {OpenMessage} message */
  _showsRun(message) {
    if ([...(this.feed?.state?.runs.values() ?? [])].some((run) => run.message_id === message.id)) return true;
    return message.parts.some((part) => part.type === "finish" && part.data["reason"] !== "end_turn");
  }

  render() {
    const message = this.feed?.state?.messages.get(this.messageId);
    if (!this.feed || !message) return nothing;
    const { head } = message;
    const isUser = head.role === "user";
    const author = visible(isUser ? head.author?.name || t("session.you") : head.model || t("message.assistant"));
    return html`${head.is_summary_message ? this._boundary() : nothing}
      <article class="message ${head.role}" aria-label=${author} aria-busy=${message.isOpen && !isUser ? "true" : "false"}>
        <header class="message-head">
          <span class="message-author" title=${head.provider || nothing}>${author}</span>
          <time datetime=${iso(head.created_at)} title=${moment(head.created_at)}>${when(head.created_at)}</time>
          ${message.isOpen && !isUser ? nothing : html`<c-message-menu .feed=${this.feed} .messageId=${this.messageId}></c-message-menu>`}
        </header>
        ${message.parts.map((part, index) => this._part(message, part, index))}
        ${message.isOpen && !isUser && message.parts.length === 0 ? html`<p class="quiet small">${t("message.waits")}</p>` : nothing}
        ${retryNote(this.feed.state?.retries.get(head.id), !message.isOpen || message.parts.length > 0)}
        ${isUser || message.isOpen ? nothing : runsOf(this.feed).timelineAfter(head.id)}
      </article>`;
  }

  _boundary() {
    return html`<div class="summary-boundary" role="separator" aria-label=${t("message.summary")}>${icon("scroll-text")}<span>${t("message.summary")}</span></div>`;
  }

  /** @param {OpenMessage} message @param {OpenPart} part @param {number} index */
  _part(message, part, index) {
    switch (part.type) {
      case "text":
        return message.head.role === "user"
          ? html`<div class="prompt-text">${visible(part.text)}</div>`
          : html`<c-markdown .text=${part.text} .isOpen=${message.isOpen}></c-markdown>`;
      case "reasoning":
        return reasoning(part, message.isOpen && index === message.parts.length - 1);
      case "tool_call":
        return callOf(this) === null ? nothing : html`<c-tool-call .feed=${this.feed} .message=${message} .callPart=${part} .text=${part.text} .isOpenMessage=${message.isOpen}></c-tool-call>`;
      case "binary":
      case "image_url":
        return attachmentOf(this)?.attachment(part) ?? nothing;
      case "shell_command":
        return this._shellCommand(message, part);
      case "finish":
        return this.feed ? finishNote(this.feed, message, part) : nothing;
      default:
        return nothing;
    }
  }

  /** A command of a person, with its output so far. @param {OpenMessage} message @param {OpenPart} part */
  _shellCommand(message, part) {
    void import("../tools/terminal.js");
    const { command = "", output = "", exit_code: code = 0 } = part.data;
    const shown = output || this.feed?.state?.outputs.get(message.id) || "";
    return html`<pre class="command" tabindex="0" aria-label=${t("message.command")}><span class="prompt-sign" aria-hidden="true">$ </span>${visible(command)}</pre>
      ${shown ? html`<c-terminal .text=${shown} .fromEnd=${true}></c-terminal>` : nothing}
      ${code ? html`<p class="wrong small">${t("tool.exit_code", { code })}</p>` : nothing}`;
  }
}

customElements.define("c-message", Message);
