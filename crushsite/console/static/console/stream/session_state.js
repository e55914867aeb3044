// A session as it is now: a snapshot, and the items of the stream folded into it. It needs no browser.
// Any item may come again, because a connection is continued at its cursor; the state stays the same.

import { lacksText, OpenMessage } from "./open_message.js";

/** @typedef {Record<string, any>} Data */

/** @type {Record<string, "accepted" | "running" | "parked" | "finished">} */
const RUN_STATES = {
  "run.accepted": "accepted",
  "run.started": "running",
  "run.resumed": "running",
  "run.parked": "parked",
  "run.folded": "finished",
  "run.finished": "finished",
};
const AT_WORK = new Set(["running", "parked", "ready"]);
const FINISHED_KEPT = 100;

/** What came does not follow what came before: the stream must be read again at its cursor. */
export class StreamBroken extends Error {}

/** After a rewind the messages are others than the stream has sent: a new snapshot is needed. */
export class StateOutdated extends Error {}

export class SessionState {
  /** @param {string} sessionId @param {Data} snapshot */
  constructor(sessionId, snapshot) {
    this.sessionId = sessionId;
    /** The newest event that the state includes. @type {number} */
    this.number = snapshot["number"];
    /** @type {Data} */
    this.workspace = snapshot["workspace"];
    /** Null after it was deleted. @type {Session | null} */
    this.session = null;
    /** In the order in which they began. @type {Map<string, OpenMessage>} */
    this.messages = new Map();
    /** @type {boolean} */
    this.hasEarlierMessages = snapshot["has_earlier_messages"] ?? false;
    /** By key, in the order of their acceptance. @type {Map<number, Run>} */
    this.runs = new Map();
    /** Requests that wait for an answer, also those of child sessions. @type {Map<string, PermissionRequest>} */
    this.permissions = new Map();
    /** @type {Map<string, Data>} */
    this.questions = new Map();
    /** How requests and batches were answered while this page watched. @type {Map<string, Data>} */
    this.resolutions = new Map();
    /** Of running tools, by the id of their call. @type {Map<string, string>} */
    this.outputs = new Map();
    /** What tools returned, by the id of their call. @type {Map<string, Data>} */
    this.results = new Map();
    /** The newest failed attempt to reach the model, by message. @type {Map<string, Data>} */
    this.retries = new Map((snapshot["retries"] ?? []).map((/** @type {Data} */ each) => [each["message_id"], each]));
    /** The sessions that this one started, and those below them. @type {Map<string, Session>} */
    this.children = new Map();
    /** Open messages by the number of the event that started them. @type {Map<number, OpenMessage>} */
    this._open = new Map();
    /** @type {Map<string, string>} */
    this._parents = new Map();
    /** Messages and topics that have changed since `takeChanges`. @type {Set<string>} */
    this._changes = new Set();
    // First whose child each one is: a child may come before its parent.
    for (const session of snapshot["sessions"]) this._parents.set(session.id, session.parent_session_id ?? "");
    for (const session of snapshot["sessions"]) this._takeSession(session, false);
    for (const message of snapshot["messages"] ?? []) {
      this.messages.set(message.id, new OpenMessage(0, message));
      this._takeResults(message);
    }
    for (const run of snapshot["runs"] ?? []) if (run.session_id === sessionId) this.runs.set(run.key, run);
    for (const each of snapshot["permissions"] ?? []) if (this.concerns(each.session_id)) this.permissions.set(each.id, each);
    for (const each of snapshot["questions"] ?? []) if (this.concerns(each.session_id)) this.questions.set(each.id, each);
  }

  get isBusy() {
    return [...this.runs.values()].some((run) => run.state !== "finished");
  }

  /** The run that is carried out now. @returns {Run | undefined} */
  get current() {
    return [...this.runs.values()].find((run) => AT_WORK.has(run.state ?? ""));
  }

  /** The accepted prompts, in order. @returns {Run[]} */
  get _accepted() {
    const waiting = [...this.runs.values()].filter((run) => run.state === "accepted");
    return waiting.sort((one, other) => one.accept_number - other.accept_number);
  }

  /** The accepted prompts that wait for an earlier run, in order. @returns {Run[]} */
  get queue() {
    return this.current ? this._accepted : this._accepted.slice(1);
  }

  /** The prompt that waits for no other run, but for a worker. @returns {Run | undefined} */
  get next() {
    return this.current ? undefined : this._accepted[0];
  }

  /** Messages by id, and topics by name, that have changed since the last call. @returns {Set<string>} */
  takeChanges() {
    const changes = this._changes;
    this._changes = new Set();
    return changes;
  }

  /** Whether it is the session, one that it started, or the workspace as a whole. @param {string} sessionId */
  concerns(sessionId) {
    if (!sessionId) return true;
    const seen = new Set();
    let at = sessionId;
    while (at && !seen.has(at)) {
      if (at === this.sessionId) return true;
      seen.add(at);
      at = this._parents.get(at) ?? "";
    }
    return false;
  }

  /** Adds messages that are older than the known ones. @param {Message[]} messages */
  addEarlier(messages, hasEarlier = false) {
    const known = this.messages;
    this.messages = new Map(messages.filter((each) => !known.has(each.id)).map((each) => [each.id, new OpenMessage(0, each)]));
    for (const [id, message] of known) this.messages.set(id, message);
    for (const message of messages) this._takeResults(message);
    this.hasEarlierMessages = hasEarlier;
    this._changes.add("messages");
  }

  /**
   * Folds an item into the state. Throws `StreamBroken` or `StateOutdated`.
   * @param {any} item an event or another object, or a delta
   */
  apply(item) {
    if (Array.isArray(item)) {
      this._delta(item[0], item[1], item[2], item[3], item[4]);
    } else if ("number" in item) {
      if (item.number <= this.number) return;
      if (item.number !== this.number + 1) throw new StreamBroken(`event ${item.number} came after event ${this.number}`);
      this._event(item.number, item.type, item.data);
      this.number = item.number;
    } else if (item.type === "message.progress") {
      this._progress(item.data.number, item.data.message);
    } else if (item.type === "tool.output") {
      this._output(item.data);
    }
  }

  /** A new connection brings the open messages again. */
  reconnected() {
    this._open.clear();
  }

  /** @param {number} number @param {string} type @param {Data} data */
  _event(number, type, data) {
    const [subject = "", verb = ""] = type.split(".");
    if (type === "session.rewound" || type === "session.rewind_undone") {
      if (data["rewind"].session_id === this.sessionId) throw new StateOutdated(type);
      return;
    }
    if (subject === "workspace") this._takeWorkspace(type, data);
    else if (subject === "session" && data["session"]) this._takeSession(data["session"], verb === "deleted");
    else if (subject === "message") this._message(number, type, data);
    else if (subject === "run" && data["run"]) this._takeRun(type, data["run"]);
    else if (type === "queue.reordered") this._reorder(data);
    else if (subject === "permission") this._takeRequest(this.permissions, "permissions", verb, data["request"], data);
    else if (subject === "question") this._takeRequest(this.questions, "questions", verb, data["batch"], data);
    else if (type === "summary.progressed" && data["session_id"] === this.sessionId) this._changes.add("summary");
    else this._changes.add(subject); // files, grants, configuration, servers: whoever shows them reads them again
  }

  /** @param {string} type @param {Data} data */
  _takeWorkspace(type, data) {
    if (data["workspace"]) this.workspace = data["workspace"];
    this._changes.add(type === "workspace.closed" ? "closed" : "workspace");
  }

  /** @param {Session} session @param {boolean} isDeleted */
  _takeSession(session, isDeleted) {
    if (isDeleted) this._parents.delete(session.id);
    else this._parents.set(session.id, session.parent_session_id ?? "");
    if (session.id === this.sessionId) {
      this.session = isDeleted ? null : session;
      this._changes.add("session");
    } else if (this.concerns(session.id) || this.children.has(session.id)) {
      if (isDeleted) this.children.delete(session.id);
      else this.children.set(session.id, session);
      this._changes.add("children");
    }
  }

  /** @param {number} number @param {string} type @param {Data} data */
  _message(number, type, data) {
    /** @type {Message} */
    let message = data["message"];
    if (message.session_id !== this.sessionId) return;
    const known = this.messages.get(message.id);
    if (lacksText(message)) {
      const whole = known?.completed(message) ?? null;
      if (whole === null) throw new StreamBroken("a message ended with text that never came");
      message = whole;
    }
    for (const [open, each] of this._open) if (each.id === message.id) this._open.delete(open);
    const next = new OpenMessage(number, message);
    if (type === "message.started" || type === "message.restarted") this._open.set(number, next);
    if (type === "message.restarted") this.retries.set(message.id, data["retry"] ?? {});
    else this.retries.delete(message.id);
    if (!known) this._changes.add("messages");
    this.messages.set(message.id, next);
    this._changes.add(message.id);
    this._takeResults(message);
  }

  /** @param {Message} message */
  _takeResults(message) {
    for (const part of message.parts ?? []) {
      if (part.type === "tool_result") {
        this.results.set(part.data.tool_call_id, part.data);
        this.outputs.delete(part.data.tool_call_id);
        this._changes.add(`result ${part.data.tool_call_id}`);
      } else if (part.type === "finish") this.outputs.delete(message.id);
    }
  }

  /** @param {number} number @param {number} part @param {number} offset @param {string} text @param {any} header */
  _delta(number, part, offset, text, header) {
    const message = this._open.get(number);
    if (message === undefined) return; // of another session, or older than the snapshot: progress follows
    if (message.add(part, offset, text, header) === "gap") throw new StreamBroken(`text of message ${number} is missing before ${offset}`);
    this._changes.add(message.id);
  }

  /** @param {number} number @param {Message} message */
  _progress(number, message) {
    if (message.session_id !== this.sessionId) return;
    const known = this.messages.get(message.id);
    if (known && known.number === number) known.extend(message);
    const open = known && known.number === number ? known : new OpenMessage(number, message);
    if (!known) this._changes.add("messages");
    this.messages.set(message.id, open);
    this._open.set(number, open);
    this._changes.add(message.id);
  }

  /** @param {Data} data */
  _output(data) {
    if (data["session_id"] !== this.sessionId) return;
    const id = data["tool_call_id"] || data["message_id"];
    this.outputs.set(id, data["text"]);
    this._changes.add(`output ${id}`);
  }

  /** @param {string} type @param {Run} run */
  _takeRun(type, run) {
    if (run.session_id !== this.sessionId) return;
    const known = this.runs.get(run.key);
    const state = RUN_STATES[type] ?? run.state ?? known?.state ?? "accepted";
    this.runs.set(run.key, { ...known, ...run, state });
    const finished = [...this.runs].filter(([, each]) => each.state === "finished");
    for (const [key] of finished.slice(0, -FINISHED_KEPT)) this.runs.delete(key);
    this._changes.add("runs");
  }

  /** @param {Data} data */
  _reorder(data) {
    if (data["session_id"] !== this.sessionId) return;
    for (const { key, ...place } of data["runs"]) {
      const known = this.runs.get(key);
      if (known) this.runs.set(key, { ...known, ...place });
    }
    this._changes.add("runs");
  }

  /** @param {Map<string, any>} open @param {string} topic @param {string} verb @param {Data | undefined} request @param {Data} data */
  _takeRequest(open, topic, verb, request, data) {
    if (verb === "overdue") return;
    if (request === undefined) {
      const id = data["request_id"] ?? data["batch_id"];
      if (open.delete(id)) this.resolutions.set(id, data);
    } else if (this.concerns(request["session_id"])) {
      open.set(request["id"], request);
    }
    this._changes.add(topic);
  }
}
