// The head of a session: its title, what it has used, its branch, and what can be done with it.

import { html, nothing } from "../vendor/lit.js";
import { at, everything, get, remove } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { count, money, short } from "../core/format.js";
import { icon } from "../core/icons.js";
import { rightsIn } from "../core/rights.js";
import { go, sessionAddress, workspaceAddress } from "../core/routes.js";
import { t } from "../core/strings.js";
import { attempt, notify } from "../core/toasts.js";
import { changeSession, download, exportAddress, fork } from "../composer/commands.js";
import "../core/menu.js";

class SessionHeader extends PageElement {
  static properties = { feed: { attribute: false }, _isRenaming: { state: true }, _window: { state: true }, _branch: { state: true }, _can: { state: true } };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    this._isRenaming = false;
    /** The model's context window, in tokens. */
    this._window = 0;
    this._branch = "";
    this._can = new Set(["prompt"]);
  }

  connectedCallback() {
    super.connectedCallback();
    this._leave = this.feed?.subscribe((changes) => {
      if (["all", "session", "runs"].some((topic) => changes.has(topic))) this.requestUpdate();
    });
    void this._load().catch(() => {}); // decoration: the head is complete without it
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._leave?.();
  }

  async _load() {
    const workspaceId = this.feed?.workspaceId ?? "";
    await this.feed?.loaded(); // a closed workspace is opened first
    rightsIn(workspaceId).then((can) => (this._can = can), () => {});
    for await (const model of everything(at`workspaces/${workspaceId}/models`)) {
      if (model.chosen_as.includes("large")) this._window = model.context_window;
    }
    const board = await get("board?sessions=1");
    this._branch = board.items.find((/** @type {Schemas["BoardWorkspace"]} */ each) => each.id === workspaceId)?.git?.branch ?? "";
  }

  async _rename() {
    this._isRenaming = true;
    await this.updateComplete;
    this.querySelector("input")?.select();
  }

  /** @param {Event} event */
  async _saveTitle(event) {
    event.preventDefault();
    const title = this.querySelector("input")?.value.trim();
    const feed = this.feed;
    if (!feed || !title || (await attempt(() => changeSession(feed, { title })))) await this._endRename();
  }

  async _endRename() {
    this._isRenaming = false;
    await this.updateComplete;
    /** @type {HTMLElement | null} */ (this.querySelector(".menu-button"))?.focus();
  }

  /** @param {Record<string, unknown>} fields @param {StringKey} done */
  async _change(fields, done) {
    const feed = this.feed;
    if (feed && (await attempt(() => changeSession(feed, fields)))) notify(t(done));
  }

  async _delete() {
    const feed = this.feed;
    if (!feed) return;
    const done = await attempt(async () => [await remove(at`workspaces/${feed.workspaceId}/sessions/${feed.sessionId}`)]);
    if (!done) return;
    this.querySelector("dialog")?.close();
    notify(t("header.deleted"));
    go("/");
  }

  /** @param {SessionFeed} feed @param {Session} session */
  _items(feed, session) {
    const isForbidden = !this._can.has("prompt");
    const isPinned = !!session.pinned_at;
    const isArchived = !!session.archived_at;
    return [
      { label: t("header.rename"), icon: "pencil", isDisabled: isForbidden, run: () => this._rename() },
      {
        label: t(isPinned ? "header.unpin" : "header.pin"),
        icon: "pin",
        isDisabled: isForbidden,
        run: () => this._change({ is_pinned: !isPinned }, isPinned ? "header.unpinned" : "header.pinned"),
      },
      {
        label: t(isArchived ? "header.unarchive" : "header.archive"),
        icon: "archive",
        isDisabled: isForbidden,
        run: () => this._change({ is_archived: !isArchived }, isArchived ? "header.unarchived" : "header.archived"),
      },
      { label: t("header.fork"), icon: "git-fork", isDisabled: isForbidden, run: () => attempt(() => fork(feed)) },
      { label: t("header.export_markdown"), icon: "download", run: () => download(exportAddress(feed, "markdown")) },
      { label: t("header.export_jsonl"), icon: "download", run: () => download(exportAddress(feed, "jsonl")) },
      { label: t("settings.workspace_title"), icon: "settings", href: `${workspaceAddress(feed.workspaceId)}/settings` },
      { label: t("header.delete"), icon: "trash-2", isDanger: true, isDisabled: isForbidden, run: () => this.querySelector("dialog")?.showModal() },
    ];
  }

  render() {
    const feed = this.feed;
    const session = feed?.state?.session;
    const title = session?.title || t("session.untitled");
    return html`<header class="session-header">
        ${this._isRenaming
          ? html`<form class="rename" @submit=${this._saveTitle} @keydown=${(/** @type {KeyboardEvent} */ event) => {
              if (event.key !== "Escape") return;
              event.stopPropagation();
              void this._endRename();
            }}><input class="input" aria-label=${t("header.title")} maxlength="500" .value=${session?.title ?? ""} /><button class="button">${t("action.save")}</button></form>`
          : html`<h1 title=${title}>${title}</h1>`}
        ${session ? this._facts(session) : nothing}
        <span class="header-space"></span>
        ${feed && session
          ? html`<a class="button changes-link" aria-label=${t("changes.title")} href="${sessionAddress(feed.workspaceId, feed.sessionId)}/changes">${icon("file-diff")}<span>${t("changes.title")}</span></a>
              <c-menu .label=${t("header.actions")} .items=${this._items(feed, session)}></c-menu>`
          : nothing}
      </header>
      <dialog aria-labelledby="delete-title">
        <h2 id="delete-title">${t("header.delete_title")}</h2>
        <p>${t("header.delete_text", { title })}</p>
        <div class="dialog-actions">
          <button type="button" class="button" @click=${() => this.querySelector("dialog")?.close()}>${t("action.cancel")}</button>
          <button type="button" class="button danger" @click=${() => void this._delete()}>${t("action.delete")}</button>
        </div>
      </dialog>`;
  }

  /** @param {Session} session */
  _facts(session) {
    const size = (session.prompt_tokens ?? 0) + (session.completion_tokens ?? 0);
    const total = (session.total_prompt_tokens ?? 0) + (session.total_completion_tokens ?? 0);
    return html`<span class="header-facts quiet small">
      ${this._branch ? html`<span>${icon("git-branch")} ${this._branch}</span>` : nothing}
      ${session.cost ? html`<span>${money(session.cost)}</span>` : nothing}
      ${total ? html`<span title=${t("header.tokens", { n: count(total) })}>${short(total)} ${t("header.tokens_short")}</span>` : nothing}
      ${size && this._window
        ? html`<meter min="0" max=${this._window} high=${this._window * 0.8} .value=${size} aria-label=${t("header.context", { n: count(size), most: count(this._window) })}
            title=${t("header.context", { n: count(size), most: count(this._window) })}></meter>`
        : nothing}
    </span>`;
  }
}

customElements.define("c-session-header", SessionHeader);
