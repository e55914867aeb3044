// One workspace of the board: its folder, branch and changed lines, and its sessions.

import { html, nothing, repeat } from "../vendor/lit.js";
import { at, post } from "../core/api.js";
import { clientId } from "../core/client.js";
import { PageElement } from "../core/element.js";
import { duration, iso, money, when } from "../core/format.js";
import { icon } from "../core/icons.js";
import { go, sessionAddress, workspaceAddress } from "../core/routes.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { byNeed, stateBadge } from "./states.js";

/** @typedef {Schemas["BoardWorkspace"]["sessions"][number]} BoardSession */

const FAILED = new Set(["failed", "interrupted", "over_budget"]);

/** @param {BoardSession} session @param {string} filter */
function matches(session, filter) {
  if (!filter) return true;
  if (filter === "failed") return FAILED.has(session.state);
  return filter === session.state || (filter === "working" && session.state === "queued");
}

/** Opens a folder for this tab, and starts a session in it. @param {string} path */
export async function startSession(path) {
  const opened = await post("workspaces", { path, client_id: clientId() });
  const session = await post(at`workspaces/${opened.id}/sessions`, { title: "" });
  go(sessionAddress(opened.id, session.id));
}

class WorkspaceCard extends PageElement {
  static properties = {
    workspace: { attribute: false },
    now: { attribute: false },
    filter: { attribute: false },
    _isStarting: { state: true },
  };

  constructor() {
    super();
    /** @type {Schemas["BoardWorkspace"] | null} */
    this.workspace = null;
    this.now = Date.now();
    this.filter = "";
    this._isStarting = false;
  }

  /** @param {string} path */
  async _start(path) {
    this._isStarting = true;
    await attempt(() => startSession(path));
    this._isStarting = false;
  }

  render() {
    const workspace = this.workspace;
    if (!workspace) return nothing;
    const sessions = workspace.sessions.filter((each) => matches(each, this.filter)).sort(byNeed);
    if (this.filter && sessions.length === 0) return nothing;
    const mayPrompt = workspace.can.includes("prompt");
    return html`<section class="workspace-card card" aria-label=${workspace.name}>
      <header>
        <div class="workspace-names">
          <h2><a href=${workspaceAddress(workspace.id)}>${workspace.name}</a></h2>
          <p class="small quiet cut" title=${workspace.path}>${workspace.path}</p>
        </div>
        ${this._git(workspace)}
        ${mayPrompt
          ? html`<button class="button" ?disabled=${this._isStarting} @click=${() => void this._start(workspace.path)}>
              ${icon("plus")}${t("board.new_session")}
            </button>`
          : nothing}
        <a class="icon-button" href="${workspaceAddress(workspace.id)}/settings" aria-label=${t("settings.of", { name: workspace.name })} title=${t("settings.of", { name: workspace.name })}>${icon("settings")}</a>
      </header>
      ${sessions.length === 0 ? html`<p class="quiet small">${t("board.no_sessions")}</p>` : nothing}
      <ul class="board-sessions">
        ${repeat(sessions, (each) => each.id, (each) => this._session(workspace.id, each))}
      </ul>
    </section>`;
  }

  /** @param {Schemas["BoardWorkspace"]} workspace */
  _git({ git }) {
    if (!git) return nothing;
    return html`<p class="workspace-git small">
      <span class="cut" title=${git.branch}>${icon("git-branch", t("board.branch"))} ${git.branch}</span>
      ${git.added
        ? html`<span class="added-lines"><span class="hidden-text">${t("board.added")}</span>+${git.added}</span>`
        : nothing}
      ${git.removed
        ? html`<span class="removed-lines"><span class="hidden-text">${t("board.removed")}</span>−${git.removed}</span>`
        : nothing}
    </p>`;
  }

  /** @param {string} workspaceId @param {BoardSession} session */
  _session(workspaceId, session) {
    const isActive = session.state === "working" || session.state === "waiting" || session.state === "queued";
    const elapsed = Math.max(0, this.now / 1000 - session.since);
    const waiting = session.waiting;
    const target = waiting ? `?${waiting.kind === "approval" ? "approval" : "questions"}=${encodeURIComponent(waiting.id)}` : "";
    return html`<li>
      <a class="board-session ${session.state}" href="${sessionAddress(workspaceId, session.id)}${target}">
        <span class="board-title cut">${session.title || t("session.untitled")}</span>
        ${stateBadge(session.state)}
        <span class="board-line cut quiet">${waiting ? waiting.title || waiting.tool_name : session.last_line}</span>
        <span class="board-facts small quiet">
          ${session.cost ? html`<span>${money(session.cost)}</span>` : nothing}
          ${isActive
            ? html`<span>${duration(Math.floor(elapsed))}</span>`
            : html`<time datetime=${iso(session.updated_at)}>${when(session.updated_at)}</time>`}
        </span>
      </a>
    </li>`;
  }
}

customElements.define("c-workspace-card", WorkspaceCard);
