// The WebSocket of one workspace: it connects again by itself, and sends commands.

/** @typedef {"connecting" | "live" | "lost" | "ended"} Status */

const FIRST_PAUSE = 200;
const LONGEST_PAUSE = 5000;
const SILENCE = 30_000; // a heartbeat comes every 10 s
const REPLY_TIME = 30_000;
// Close codes after which another connection would end the same way.
const FINAL = new Set([4401, 4404, 4409]);

/** The server refused a command. */
export class CommandRefused extends Error {
  /** @param {string} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/**
 * @typedef {object} Listener
 * @property {() => number} cursor the newest event that is known, at each connection
 * @property {() => void} connected before the first item of a connection
 * @property {(items: any[]) => void} received may throw: the connection is then read again
 * @property {(status: Status, code: number) => void} changed
 * @property {() => void} refused a connection ended before it was open: a browser gets no reason
 */

export class Connection {
  /** @param {string} workspaceId @param {string} clientId @param {Listener} listener */
  constructor(workspaceId, clientId, listener) {
    this._workspaceId = workspaceId;
    this._clientId = clientId;
    this._listener = listener;
    /** @type {Status} */
    this.status = "connecting";
    this._failures = 0;
    this._commands = 0;
    /** @type {WebSocket | null} */
    this._socket = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this._timer = undefined;
    /** @type {Map<number, {resolve: (data: any) => void, reject: (error: Error) => void, timer: ReturnType<typeof setTimeout>}>} */
    this._waiting = new Map();
    this._hasReturned = () => this.retryNow();
    addEventListener("online", this._hasReturned);
    document.addEventListener("visibilitychange", this._hasReturned);
    this._connect();
  }

  /** Ends the connection for good. */
  close() {
    this._end("ended", 1000);
  }

  /** Connects at once instead of after the pause. */
  retryNow() {
    // An attempt that is under way goes on: another socket beside it would stay open, and nobody reads it.
    if (this.status !== "lost" || this._socket !== null || document.hidden) return;
    clearTimeout(this._timer);
    this._connect();
  }

  /**
   * Sends a command; rejects with `CommandRefused`, or with an error if no reply came.
   * @param {string} command @param {Record<string, unknown>} fields
   * @returns {Promise<any>}
   */
  send(command, fields) {
    return new Promise((resolve, reject) => {
      if (this._socket?.readyState !== WebSocket.OPEN) {
        reject(new CommandRefused("unreachable", "The server cannot be reached."));
        return;
      }
      const id = ++this._commands;
      const timer = setTimeout(() => this._fail(id, "no_reply", "The server has not replied."), REPLY_TIME);
      this._waiting.set(id, { resolve, reject, timer });
      this._socket.send(JSON.stringify({ id, command, ...fields }));
    });
  }

  _connect() {
    const query = new URLSearchParams({ after: String(this._listener.cursor()), client_id: this._clientId });
    const address = `/api/workspaces/${encodeURIComponent(this._workspaceId)}/stream?${query}`;
    const socket = new WebSocket(new URL(address, location.href.replace(/^http/, "ws")));
    this._socket = socket;
    this._listener.connected();
    this._watch();
    socket.onmessage = (event) => {
      if (socket === this._socket) this._receive(event.data);
    };
    let isOpened = false;
    socket.onopen = () => {
      isOpened = true;
    };
    socket.onclose = (event) => {
      if (socket !== this._socket) return;
      this._closed(event.code);
      if (!isOpened) this._listener.refused();
    };
  }

  /** @param {string} text */
  _receive(text) {
    this._watch();
    try {
      const items = JSON.parse(text);
      const others = [];
      for (const item of items) {
        if (item.type === "reply") this._reply(item);
        else others.push(item);
      }
      if (others.length > 0) this._listener.received(others);
      if (others.some((item) => item.type === "stream.opened")) {
        this._failures = 0;
        this._become("live");
      }
    } catch (error) {
      if (this.status === "ended") return; // the listener has closed this connection
      console.info("the stream is read again:", error instanceof Error ? error.message : error);
      this._socket?.close();
      this._closed(1002);
    }
  }

  /** @param {any} item */
  _reply(item) {
    const waiting = this._waiting.get(item.id);
    if (!waiting) return;
    this._waiting.delete(item.id);
    clearTimeout(waiting.timer);
    if (item.ok) waiting.resolve(item.data ?? {});
    else waiting.reject(new CommandRefused(item.code, item.message));
  }

  /** @param {number} id @param {string} code @param {string} message */
  _fail(id, code, message) {
    this._reply({ id, ok: false, code, message });
  }

  /** @param {number} code */
  _closed(code) {
    this._socket = null;
    for (const id of [...this._waiting.keys()]) this._fail(id, "connection_lost", "The connection was lost before the server replied.");
    if (FINAL.has(code)) {
      this._end("ended", code);
      return;
    }
    clearTimeout(this._timer);
    const pause = Math.min(FIRST_PAUSE * 2 ** this._failures++, LONGEST_PAUSE) * (0.5 + Math.random() / 2);
    this._become("lost", code);
    this._timer = setTimeout(() => this._connect(), pause);
  }

  /** @param {Status} status @param {number} code */
  _end(status, code) {
    clearTimeout(this._timer);
    removeEventListener("online", this._hasReturned);
    document.removeEventListener("visibilitychange", this._hasReturned);
    const socket = this._socket;
    this._socket = null;
    socket?.close();
    this._become(status, code);
  }

  /** A connection that is silent for too long is closed. */
  _watch() {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      this._socket?.close();
      this._closed(1006);
    }, SILENCE);
  }

  /** @param {Status} status @param {number} [code] */
  _become(status, code = 0) {
    if (this.status === status) return;
    this.status = status;
    this._listener.changed(status, code);
  }
}
