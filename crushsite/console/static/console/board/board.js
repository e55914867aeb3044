// The board: all workspaces, what their sessions are doing, and what waits for a person. The server
// says what is true, so it is the same after a restart and in every tab.

import { html, nothing, repeat } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { empty } from "../core/empty.js";
import { icon } from "../core/icons.js";
import { poll } from "../core/poll.js";
import { t } from "../core/strings.js";
import "./open_folder.js";
import "./workspace_card.js";

/** The sessions of each workspace that are shown, besides those that work or wait. */
const SESSIONS = 6;

class Board extends PageElement {
  static properties = {
    workspaceId: { attribute: false },
    _items: { state: true },
    _error: { state: true },
    _filter: { state: true },
    _now: { state: true },
  };

  constructor() {
    super();
    /** Only this workspace, with more of its sessions. @type {string | undefined} */
    this.workspaceId = undefined;
    /** @type {Schemas["BoardWorkspace"][] | null} */
    this._items = null;
    /** @type {Error | null} */
    this._error = null;
    /** @type {string} */
    this._filter = "";
    this._now = Date.now();
  }

  connectedCallback() {
    super.connectedCallback();
    this._poll = poll(`board?sessions=${this.workspaceId === undefined ? SESSIONS : 50}&limit=200`, {
      value: (page) => {
        this._items = page.items;
        this._error = null;
      },
      failed: (error) => {
        this._error = error;
      },
    });
    // Elapsed times.
    this._clock = setInterval(() => {
      if (!document.hidden) this._now = Date.now();
    }, 1000);
    document.title = `${t("board.title")} – ${t("app.name")}`;
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._poll?.stop();
    clearInterval(this._clock);
  }

  /** How many sessions are in each state. */
  _counts() {
    const counts = { waiting: 0, working: 0, failed: 0 };
    for (const session of (this._items ?? []).flatMap((each) => each.sessions)) {
      if (session.state === "waiting") counts.waiting += 1;
      else if (session.state === "working" || session.state === "queued") counts.working += 1;
      else if (session.state === "failed" || session.state === "interrupted" || session.state === "over_budget") counts.failed += 1;
    }
    return counts;
  }

  render() {
    const items = (this._items ?? []).filter((each) => this.workspaceId === undefined || each.id === this.workspaceId);
    const mayOpen = this._items === null || this.workspaceId === undefined;
    return html`<div class="page board">
      <div class="page-head">
        <h1>${this.workspaceId === undefined ? t("board.title") : (items[0]?.name ?? t("board.title"))}</h1>
        ${this.workspaceId !== undefined && this._items !== null && items.length === 0
          ? nothing
          : mayOpen ? html`<c-open-folder></c-open-folder>` : html`<a class="button" href="/w/${this.workspaceId}/settings">${icon("settings")}${t("nav.settings")}</a>`}
      </div>
      ${this._error ? html`<p class="board-error wrong" role="alert">${icon("wifi-off")} ${this._error.message}</p>` : nothing}
      ${this._items === null && !this._error ? html`<p class="quiet" role="status">${t("state.loading")}</p>` : nothing}
      ${this._items !== null && items.length === 0 ? this._empty() : nothing}
      ${items.length > 0 && this.workspaceId === undefined ? this._summary() : nothing}
      <div class="board-grid">
        ${repeat(
          items,
          (each) => each.id,
          (each) => html`<c-workspace-card .workspace=${each} .now=${this._now} .filter=${this._filter}></c-workspace-card>`,
        )}
      </div>
    </div>`;
  }

  _empty() {
    if (this.workspaceId === undefined) return empty("folder-open", t("board.empty"), t("board.empty_hint"));
    return empty("search", t("board.no_workspace"), "", html`<a class="button" href="/">${t("app.to_board")}</a>`);
  }

  /** Buttons that show only the sessions in one state. */
  _summary() {
    const counts = this._counts();
    /** @type {[keyof typeof counts, string, StringKey][]} */
    const kinds = [
      ["waiting", "hand", "board.count_waiting"],
      ["working", "loader-circle", "board.count_working"],
      ["failed", "circle-x", "board.count_failed"],
    ];
    return html`<div class="board-summary" role="group" aria-label=${t("board.filter")}>
      ${kinds.map(
        ([kind, name, label]) => html`<button
          class="board-count ${kind}"
          aria-pressed=${this._filter === kind ? "true" : "false"}
          @click=${() => (this._filter = this._filter === kind ? "" : kind)}
        >
          ${icon(name)}<strong>${counts[kind]}</strong> ${t(label)}
        </button>`,
      )}
    </div>`;
  }
}

customElements.define("c-board", Board);
