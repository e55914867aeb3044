// What can be done with a message: rewind the session to it, continue in a copy, copy its text.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { t } from "../core/strings.js";
import { attempt, notify } from "../core/toasts.js";
import { fork } from "../composer/commands.js";
import "../core/menu.js";

class MessageMenu extends PageElement {
  static properties = { feed: { attribute: false }, messageId: { attribute: false } };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    this.messageId = "";
  }

  async _rewind() {
    const feed = this.feed;
    if (!feed) return;
    const { openRewind } = await import("./rewind_dialog.js");
    openRewind(feed, this.messageId);
  }

  async _copy() {
    const message = this.feed?.state?.messages.get(this.messageId);
    const text = message?.parts.filter((part) => part.type === "text").map((part) => part.text).join("\n\n") ?? "";
    const done = await attempt(async () => [await navigator.clipboard.writeText(text)]);
    if (done) notify(t("action.copied"));
  }

  render() {
    const feed = this.feed;
    const message = feed?.state?.messages.get(this.messageId);
    if (!feed || !message) return nothing;
    const isUser = message.head.role === "user";
    return html`<c-menu .label=${t("message.actions")} .items=${[
      { label: t("action.copy"), icon: "copy", run: () => this._copy() },
      { label: t("message.fork"), icon: "git-fork", run: () => attempt(() => fork(feed, this.messageId)) },
      { label: t(isUser ? "message.rewind_before" : "message.rewind"), icon: "rewind", run: () => this._rewind() },
    ]}></c-menu>`;
  }
}

customElements.define("c-message-menu", MessageMenu);
