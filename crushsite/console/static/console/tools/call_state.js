// How far a call of a tool is: from the message, the result, the run, and what waits for a person.

import { isObject } from "./arguments.js";

/** @typedef {"writing" | "queued" | "permission" | "answer" | "running" | "background" | "done" | "failed" | "denied" | "cancelled" | "ended"} CallState */

// The server's fixed results: agents/turn/notes.py.
const DENIED = /^(?:The user denied permission|User denied permission)/;
const CANCELLED = /^Cancelled by the user/;

/** A call with everything that is known of it. */
export class Call {
  /** @param {SessionState | null} state @param {OpenMessage} message @param {OpenPart} part */
  constructor(state, message, part) {
    this.id = String(part.data["id"] ?? "");
    this.name = String(part.data["name"] ?? "");
    this.text = part.text;
    this.message = message;
    /** @type {Record<string, any> | null} */
    this.result = state?.results.get(this.id) ?? null;
    this.metadata = metadataOf(this.result);
    this.output = state?.outputs.get(this.id) ?? "";
    this.state = stateOf(state, message, part, this.result, this.metadata);
  }

  /** The result's text; empty while there is none. @returns {string} */
  get content() {
    return String(this.result?.["content"] ?? "");
  }

  get isOver() {
    return this.result !== null;
  }

  /** Bash adds its exit code below the output. @returns {number | null} */
  get exitCode() {
    if (this.name !== "bash" || this.result === null) return null;
    const code = /(?:^|\n)Exit code (-?\d+)$/.exec(this.content)?.[1];
    if (code !== undefined) return Number(code);
    return this.metadata["end_time"] && !this.metadata["background"] ? 0 : null;
  }
}

/** @param {Record<string, any> | null} result @returns {Record<string, any>} */
function metadataOf(result) {
  if (!result?.["metadata"]) return {};
  try {
    const value = JSON.parse(result["metadata"]);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/**
 * @param {SessionState | null} state @param {OpenMessage} message @param {OpenPart} part
 * @param {Record<string, any> | null} result @param {Record<string, any>} metadata
 * @returns {CallState}
 */
function stateOf(state, message, part, result, metadata) {
  if (result !== null) {
    const content = String(result["content"] ?? "");
    if (!result["is_error"]) return metadata["background"] ? "background" : "done";
    if (DENIED.test(content)) return "denied";
    return CANCELLED.test(content) ? "cancelled" : "failed";
  }
  if (message.isOpen) return message.parts.at(-1) === part && !part.data["finished"] ? "writing" : "queued";
  if (isWaiting(state?.permissions, part)) return "permission";
  if (isWaiting(state?.questions, part)) return "answer";
  return state?.current ? "running" : "ended";
}

/** @param {Map<string, any> | undefined} open @param {OpenPart} part */
function isWaiting(open, part) {
  return [...(open?.values() ?? [])].some((each) => each.tool_call_id === part.data["id"]);
}
