// What waits for answers in all workspaces: read every two seconds while the page is looked at.

import { get } from "../core/api.js";

const SECONDS = 2;
const HIDDEN_SECONDS = 10;

/** @typedef {(items: WaitingItem[]) => void} WaitingSubscriber */

class Waiting {
  constructor() {
    /** Oldest first; null before the first answer of the server. @type {WaitingItem[] | null} */
    this.items = null;
    /** @type {Error | null} */
    this.error = null;
    /** Whether a hidden page also reads: for notifications. */
    this.isNeededHidden = () => false;
    /** @type {Set<() => void>} */
    this._subscribers = new Set();
    /** @type {any} */
    this._timer = null;
    this._isReading = false;
  }

  /** @param {() => void} subscriber */
  subscribe(subscriber) {
    this._subscribers.add(subscriber);
    if (this._timer === null && !this._isReading) this._begin();
    return () => this._subscribers.delete(subscriber);
  }

  _begin() {
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) void this.refresh();
    });
    document.addEventListener("signed-out", () => this._subscribers.clear());
    void this.refresh();
  }

  async refresh() {
    if (this._isReading || this._subscribers.size === 0) return;
    this._isReading = true;
    clearTimeout(this._timer);
    try {
      if (!document.hidden || this.isNeededHidden() || this.items === null) await this._read();
    } finally {
      this._isReading = false;
      this._timer = setTimeout(() => void this.refresh(), (document.hidden ? HIDDEN_SECONDS : SECONDS) * 1000);
    }
  }

  async _read() {
    try {
      const [approvals, trust, questions] = await Promise.all([get("approvals"), get("trust-requests"), get("questions")]);
      this.error = null;
      const items = [
        ...[...approvals.items, ...trust.items].map((/** @type {any} */ each) => itemOf("approval", each)),
        ...questions.items.map((/** @type {any} */ each) => itemOf("questions", each)),
      ].sort((one, other) => one.data["asked_at"] - other.data["asked_at"]);
      const isSame = this.items !== null && items.length === this.items.length && items.every((each, index) => each.data === this.items?.[index]?.data);
      this.items = items;
      if (isSame) return;
    } catch (error) {
      this.error = error instanceof Error ? error : new Error(String(error));
    }
    for (const subscriber of [...this._subscribers]) subscriber();
  }
}

/** @param {"approval" | "questions"} kind @param {Record<string, any>} data @returns {WaitingItem} */
export const itemOf = (kind, data) => ({
  kind,
  id: data["id"],
  workspaceId: data["workspace_id"],
  data,
  resolution: data["state"] === "pending" ? null : data,
});

export const waiting = new Waiting();
