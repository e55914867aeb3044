// One session that stays up to date: a snapshot, then the stream. Components subscribe to it and are
// notified once for each frame of the screen, however many words have come.

import { at, get, post } from "../core/api.js";
import { clientId } from "../core/client.js";
import { Connection } from "./connection.js";
import { SessionState, StateOutdated } from "./session_state.js";

const MESSAGES = 150;
const RETRY = 2000;
const HIDDEN_PAUSE = 250; // a hidden page gets no frames
const TEXT_PAUSE = 40; // text that comes faster than it can be read needs no frame for each word

/** @typedef {"loading" | "connecting" | "live" | "lost" | "ended"} FeedStatus */
/** @typedef {(changes: Set<string>) => void} Subscriber */

export class SessionFeed {
  /** @param {string} workspaceId @param {string} sessionId */
  constructor(workspaceId, sessionId) {
    this.workspaceId = workspaceId;
    this.sessionId = sessionId;
    /** @type {SessionState | null} */
    this.state = null;
    /** @type {FeedStatus} */
    this.status = "loading";
    /** The close code of a connection that has ended for good. */
    this.endCode = 0;
    /** Why the session cannot be shown. @type {Error | null} */
    this.error = null;
    /** @type {Connection | null} */
    this._connection = null;
    /** @type {Set<Subscriber>} */
    this._subscribers = new Set();
    /** @type {Set<string>} */
    this._changes = new Set();
    this._isScheduled = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this._timer = undefined;
    this._flushedAt = 0;
    this._isClosed = false;
    this._loading = this.load();
  }

  /** Notifies of messages and topics that have changed. @param {Subscriber} subscriber @returns {() => void} */
  subscribe(subscriber) {
    this._subscribers.add(subscriber);
    return () => this._subscribers.delete(subscriber);
  }

  close() {
    this._isClosed = true;
    this._connection?.close();
    this._subscribers.clear();
  }

  /** Resolves when there is a state, or an error. */
  loaded() {
    return this._loading;
  }

  retryNow() {
    if (this._connection) this._connection.retryNow();
    else this._loading = this.load();
  }

  /** Reads a snapshot and begins the stream after it. */
  async load() {
    this._connection?.close();
    this._connection = null;
    try {
      const snapshot = await this._snapshot();
      if (this._isClosed) return;
      this.state = new SessionState(this.sessionId, snapshot);
      this.error = null;
      this._connect(this.state);
    } catch (error) {
      if (this._isClosed) return;
      this.error = error instanceof Error ? error : new Error(String(error));
      this.status = "lost";
      // Without a state, the page shows the error and a button.
      if (this.state) setTimeout(() => this._isClosed || this._connection || this.retryNow(), RETRY);
    }
    this._notify(["all"]);
  }

  async _snapshot() {
    return await this._getOpened(at`workspaces/${this.workspaceId}/snapshot?session=${this.sessionId}&limit=${MESSAGES}`);
  }

  /** A workspace that nobody uses is closed. Opening its folder again gives the same workspace. @param {string} path */
  async _getOpened(path) {
    try {
      return await get(path);
    } catch (error) {
      if (!(error instanceof Error) || /** @type {any} */ (error).status !== 404) throw error;
      if ((await this._open()).is_open) throw error;
      return await get(path);
    }
  }

  /** Opens the workspace if it is closed. Returns the workspace as it was. */
  async _open() {
    const workspace = await get(at`workspaces/${this.workspaceId}`);
    if (!workspace.is_open) await post("workspaces", { path: workspace.path, client_id: clientId() });
    return workspace;
  }

  /** @param {SessionState} state */
  _connect(state) {
    this._connection = new Connection(this.workspaceId, clientId(), {
      cursor: () => state.number,
      connected: () => state.reconnected(),
      received: (items) => this._take(state, items),
      changed: (status, code) => {
        if (this.state !== state) return;
        this.status = status;
        this.endCode = status === "ended" ? code : 0;
        if (code === 4404 || code === 4409) void this._reopen();
        this._notify(["status"]);
      },
      refused: () => void this._ensureUsable(state),
    });
    this.status = this._connection.status;
  }

  /**
   * After a restart of the server, the workspace of a refused stream may be closed; the connection tries again by itself.
   * Or the log no longer has what follows the state, or does not have it yet: then a new snapshot is needed.
   * @param {SessionState} state
   */
  async _ensureUsable(state) {
    try {
      const { first_event: first, last_event: last } = await this._open();
      if (this.state === state && (state.number < first - 1 || state.number > last)) this._loading = this.load();
    } catch {
      // The server cannot be reached yet, or refuses: the status shows that the connection is lost.
    }
  }

  /** The workspace was closed, or this client released: it is opened again, once. */
  async _reopen() {
    if (this._isClosed) return;
    this._loading = this.load();
    await this._loading;
  }

  /** @param {SessionState} state @param {any[]} items */
  _take(state, items) {
    try {
      for (const item of items) state.apply(item);
    } catch (error) {
      if (!(error instanceof StateOutdated)) throw error;
      this._loading = this.load();
    }
    this._notify(state.takeChanges());
  }

  /** Reads messages before the oldest known one. Returns how many came. */
  async loadEarlier(limit = 50) {
    const state = this.state;
    const first = state?.messages.keys().next().value;
    if (!state?.hasEarlierMessages || first === undefined) return 0;
    const page = await get(at`workspaces/${this.workspaceId}/sessions/${this.sessionId}/messages?before=${first}&limit=${limit}`);
    state.addEarlier(page.items, page.has_earlier ?? page.items.length === limit);
    this._notify(state.takeChanges());
    return page.items.length;
  }

  /** Sends a command on the stream. @param {string} command @param {Record<string, unknown>} fields @returns {Promise<any>} */
  send(command, fields) {
    if (!this._connection) return Promise.reject(new Error("The server cannot be reached."));
    return this._connection.send(command, fields);
  }

  /** Notifies of something about the session that was read besides the stream. @param {string} topic */
  changed(topic) {
    this._notify([topic]);
  }

  /** @param {Iterable<string>} changes */
  _notify(changes) {
    for (const change of changes) this._changes.add(change);
    if (this._isScheduled || this._changes.size === 0) return;
    const pause = document.hidden ? HIDDEN_PAUSE : this._hasText() ? TEXT_PAUSE - (performance.now() - this._flushedAt) : 0;
    if (pause > 0) this._timer ??= setTimeout(() => this._schedule(), pause);
    else this._schedule();
  }

  _schedule() {
    clearTimeout(this._timer);
    this._timer = undefined;
    this._isScheduled = true;
    if (document.hidden) this._flush();
    else requestAnimationFrame(() => this._flush());
  }

  /** Whether nothing but text of messages has changed. */
  _hasText() {
    for (const change of this._changes) if (!this.state?.messages.has(change)) return false;
    return true;
  }

  _flush() {
    this._isScheduled = false;
    this._flushedAt = performance.now();
    const changes = this._changes;
    this._changes = new Set();
    for (const subscriber of [...this._subscribers]) subscriber(changes);
  }
}
