// The finished runs of a session by their last message: what a timeline, a retry and the amounts of a
// budget need. They come from the REST interface, the newest ones with the first message that asks.

import { at, get } from "../core/api.js";
import { html, nothing } from "../vendor/lit.js";
import "./timeline.js";

const PAGE = 100;

/** @type {WeakMap<SessionFeed, RunIndex>} */
const indexes = new WeakMap();

/** @param {SessionFeed} feed */
export function runsOf(feed) {
  const known = indexes.get(feed) ?? new RunIndex(feed);
  indexes.set(feed, known);
  return known;
}

class RunIndex {
  /** @param {SessionFeed} feed */
  constructor(feed) {
    this.feed = feed;
    /** By the id of the last message. @type {Map<string, Record<string, any>>} */
    this._runs = new Map();
    /** @type {Set<number>} */
    this._retried = new Set();
    /** Runs that have ended while this page watched, whose amounts are read. @type {Set<number>} */
    this._read = new Set();
    /** @type {string | null} */
    this._next = "";
    this._isLoading = false;
    /** The oldest message that a run was looked for, in unix seconds. */
    this._wanted = Infinity;
    this._oldest = Infinity;
  }

  /** @param {string} id @returns {Record<string, any> | undefined} */
  ofMessage(id) {
    this._want(id);
    return this._runs.get(id) ?? this._live(id);
  }

  /** Whether another run repeats it. @param {number} key */
  isRetried(key) {
    return this._retried.has(key) || [...(this.feed.state?.runs.values() ?? [])].some((run) => run.retry_of === key);
  }

  /** The timeline of the run that ended with a message. @param {string} id */
  timelineAfter(id) {
    const live = this._live(id);
    if (live) void this._readEnded(live.key);
    const run = this._runs.get(id);
    return run ? html`<c-run-timeline .feed=${this.feed} .run=${run}></c-run-timeline>` : nothing;
  }

  /** A run that has ended while this page watched. @param {string} id */
  _live(id) {
    return [...(this.feed.state?.runs.values() ?? [])].find((run) => run.message_id === id && run.state === "finished");
  }

  /** @param {string} id */
  _want(id) {
    const message = this.feed.state?.messages.get(id);
    if (!message || this._runs.has(id)) return;
    this._wanted = Math.min(this._wanted, message.head.created_at);
    if (!this._isLoading && this._next !== null && this._wanted <= this._oldest) void this._load();
  }

  async _load() {
    this._isLoading = true;
    try {
      while (this._next !== null && this._wanted <= this._oldest) {
        const path = at`workspaces/${this.feed.workspaceId}/runs?session=${this.feed.sessionId}&limit=${PAGE}`;
        const page = await get(this._next ? `${path}&cursor=${encodeURIComponent(this._next)}` : path);
        page.items.forEach((/** @type {Record<string, any>} */ run) => this._take(run));
        this._oldest = page.items.at(-1)?.accepted_at ?? -Infinity;
        this._next = page.next;
      }
      this.feed.changed("run details");
    } catch {
      this._next = null; // the conversation is complete without it
    } finally {
      this._isLoading = false;
    }
  }

  /** @param {number} key */
  async _readEnded(key) {
    if (this._read.has(key)) return;
    this._read.add(key);
    try {
      this._take(await get(at`workspaces/${this.feed.workspaceId}/runs/${key}`));
      this.feed.changed("run details");
    } catch {
      // The conversation is complete without it.
    }
  }

  /** @param {Record<string, any>} run */
  _take(run) {
    if (run["retry_of"]) this._retried.add(run["retry_of"]);
    if (run["state"] === "finished" && run["message_id"]) this._runs.set(run["message_id"], run);
  }
}
