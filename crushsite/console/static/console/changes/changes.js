// The files that a session has changed, with comments on their lines that are sent as one prompt.

import { html, nothing } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { at, everything, post } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { empty } from "../core/empty.js";
import { count } from "../core/format.js";
import { icon } from "../core/icons.js";
import { go, sessionAddress } from "../core/routes.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { commentsOf, isAt, keepComments, promptOf, watchComments } from "./comments.js";
import "../text/diff_view.js";

const SINCE = /** @type {const} */ (["turn", "session", "git"]);
const MODE = "crush-diff-mode";

class Changes extends PageElement {
  static properties = {
    workspaceId: { attribute: false },
    sessionId: { attribute: false },
    _since: { state: true },
    _mode: { state: true },
    _files: { state: true },
    _error: { state: true },
    _comments: { state: true },
    _picked: { state: true },
  };

  constructor() {
    super();
    this.workspaceId = "";
    this.sessionId = "";
    /** @type {"turn" | "session" | "git"} */
    this._since = "session";
    /** @type {"inline" | "split"} */
    this._mode = localStorage.getItem(MODE) === "split" ? "split" : "inline";
    /** @type {Schemas["ChangedFile"][] | null} */
    this._files = null;
    /** @type {Error | null} */
    this._error = null;
    /** @type {LineComment[]} */
    this._comments = [];
    /** The line that is being commented. @type {{path: string, line: DiffLine} | null} */
    this._picked = null;
    this._runId = crypto.randomUUID();
  }

  connectedCallback() {
    super.connectedCallback();
    this._comments = commentsOf(this.sessionId);
    this._leave = watchComments(this.sessionId, () => (this._comments = commentsOf(this.sessionId)));
    document.title = `${t("changes.title")} – ${t("app.name")}`;
    void this._load();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._leave?.();
  }

  async _load() {
    const since = this._since;
    this._files = null;
    this._error = null;
    /** @type {Schemas["ChangedFile"][]} */
    const files = [];
    try {
      for await (const each of everything(at`workspaces/${this.workspaceId}/sessions/${this.sessionId}/files?since=${since}`)) files.push(each);
    } catch (error) {
      if (since === this._since) this._error = error instanceof Error ? error : new Error(String(error));
      return;
    }
    if (since !== this._since) return;
    this._files = files;
    announce(t("changes.count", { n: files.length }));
  }

  /** @param {LineComment[]} comments */
  _keep(comments) {
    this._comments = comments;
    keepComments(this.sessionId, comments);
    this._runId = crypto.randomUUID(); // another text is another prompt
  }

  /** @param {SubmitEvent} event */
  _add(event) {
    event.preventDefault();
    const picked = this._picked;
    const text = /** @type {HTMLFormElement} */ (event.target).querySelector("textarea")?.value.trim();
    if (!picked || !text) return;
    const { path, line } = picked;
    const isRemoved = line.kind === "removed";
    this._keep([...this._comments, { path, line: line.new || line.old, isRemoved, code: line.text, text }]);
    announce(t("changes.added"));
    void this._endPick();
  }

  /** Back to the line's button. */
  async _endPick() {
    const line = this._picked?.line;
    const label = line && t(line.kind === "removed" ? "diff.pick_removed" : "diff.pick", { line: line.new || line.old });
    const view = [.../** @type {NodeListOf<any>} */ (this.querySelectorAll("c-diff"))].find((each) => each.path === this._picked?.path);
    this._picked = null;
    await this.updateComplete;
    /** @type {HTMLElement | null} */ (view?.querySelector(`[aria-label="${label}"]`))?.focus();
  }

  async _send() {
    const path = at`workspaces/${this.workspaceId}/sessions/${this.sessionId}/prompts`;
    const sent = await attempt(() => post(path, { text: promptOf(this._comments), run_id: this._runId }, { key: this._runId }));
    if (!sent) return;
    this._keep([]);
    go(sessionAddress(this.workspaceId, this.sessionId));
  }

  render() {
    const files = this._files ?? [];
    return html`<div class="page changes">
      <header class="page-head">
        <h1>${t("changes.title")}</h1>
        <a class="button" href=${sessionAddress(this.workspaceId, this.sessionId)}>${icon("arrow-left")}${t("changes.back")}</a>
      </header>
      <div class="changes-choices">
        <div class="tabs" role="group" aria-label=${t("changes.since")}>
          ${SINCE.map((name) => html`<button type="button" aria-pressed=${String(name === this._since)} aria-current=${name === this._since ? "true" : nothing}
            @click=${() => {
              this._since = name;
              void this._load();
            }}>${t(`changes.${name}`)}</button>`)}
        </div>
        <button type="button" class="button split-button" aria-pressed=${String(this._mode === "split")} @click=${() => this._toggleMode()}>${t("changes.split")}</button>
      </div>
      ${this._error ? html`<p class="wrong" role="alert">${this._error.message}</p>` : nothing}
      ${this._files === null && !this._error ? html`<p class="quiet" role="status">${t("state.loading")}</p>` : nothing}
      ${this._files?.length === 0 ? empty("file-diff", t("changes.none"), t("changes.none_hint")) : nothing}
      ${files.length > 1 ? this._list(files) : nothing}
      ${files.map((file, index) => this._file(file, index))}
      ${this._comments.length > 0 ? this._bar() : nothing}
    </div>`;
  }

  _toggleMode() {
    this._mode = this._mode === "split" ? "inline" : "split";
    localStorage.setItem(MODE, this._mode);
  }

  /** @param {Schemas["ChangedFile"][]} files */
  _list(files) {
    return html`<ul class="changed-list" aria-label=${t("changes.files")}>
      ${files.map((file, index) => html`<li><a href="#file-${index}" @click=${(/** @type {Event} */ event) => {
        event.preventDefault();
        const head = /** @type {HTMLElement | null} */ (this.querySelector(`#file-${index}`));
        head?.scrollIntoView();
        head?.focus();
      }}>${file.path}</a> ${this._counts(file)}</li>`)}
    </ul>`;
  }

  /** @param {Schemas["ChangedFile"]} file */
  _counts(file) {
    return html`<span class="small"><span class="plus">+${count(file.additions)}</span> <span class="minus">−${count(file.removals)}</span></span>`;
  }

  /** @param {Schemas["ChangedFile"]} file @param {number} index */
  _file(file, index) {
    return html`<section class="changed-file">
      <h2 id="file-${index}" tabindex="-1"><span class="mono">${file.path}</span> <span class="badge">${t(`changes.${file.change}`)}</span> ${this._counts(file)}</h2>
      ${file.is_cut ? html`<p class="quiet small">${t("changes.cut")}</p>` : nothing}
      <c-diff .diff=${file.diff} .path=${file.path} .mode=${this._mode} .canPick=${true}
        .below=${(/** @type {DiffLine} */ line) => this._below(file.path, line)}
        @line-picked=${async (/** @type {CustomEvent} */ event) => {
          this._picked = event.detail;
          await this.updateComplete;
          requestAnimationFrame(() => /** @type {HTMLElement | null} */ (this.querySelector(".comment-form textarea"))?.focus());
        }}></c-diff>
    </section>`;
  }

  /** The comments on a line, and the form for another. @param {string} path @param {DiffLine} line */
  _below(path, line) {
    const own = this._comments.filter((each) => isAt(each, path, line));
    const isPicked = this._picked?.path === path && this._picked.line.index === line.index;
    if (own.length === 0 && !isPicked) return nothing;
    return html`${own.map((each) => html`<div class="line-comment">
        <p class="plain">${each.text}</p>
        <button type="button" class="icon-button" aria-label=${t("changes.remove_comment")} @click=${() => this._keep(this._comments.filter((other) => other !== each))}>${icon("trash-2")}</button>
      </div>`)}
      ${isPicked ? html`<form class="comment-form" @submit=${(/** @type {SubmitEvent} */ event) => this._add(event)}
        @keydown=${(/** @type {KeyboardEvent} */ event) => this._formKey(event)}>
        <textarea class="input" rows="2" required aria-label=${t("changes.comment")}></textarea>
        <button class="button primary">${t("changes.add")}</button>
        <button type="button" class="button" @click=${() => void this._endPick()}>${t("action.cancel")}</button>
      </form>` : nothing}`;
  }

  /** @param {KeyboardEvent} event */
  _formKey(event) {
    if (event.key === "Escape") {
      event.stopPropagation();
      void this._endPick();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      /** @type {HTMLFormElement} */ (event.currentTarget).requestSubmit();
    }
  }

  _bar() {
    const n = this._comments.length;
    return html`<div class="comment-bar" role="group" aria-label=${t("changes.comments", { n })}>
      <span>${t("changes.comments", { n })}</span>
      <button type="button" class="button" @click=${() => this._keep([])}>${t("changes.discard")}</button>
      <button type="button" class="button primary" @click=${() => void this._send()}>${icon("send")}${t("changes.send")}</button>
    </div>`;
  }
}

customElements.define("c-changes", Changes);
