// One call of a tool: a line with what it does and how far it is, which opens to what the tool was
// given and what it returned. The content is made when it is opened, by modules that load then.

import { html, nothing, until } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { count, duration } from "../core/format.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { visible } from "../text/visible.js";
import { readArguments } from "./arguments.js";
import { Call } from "./call_state.js";
import { kindOf } from "./catalogue.js";
import "./elapsed.js";

const MAIN_LENGTH = 300; // characters of the argument in the line
const HEAD_LENGTH = 4000; // of the arguments, to find it while they are written

/** @type {Record<CallState, {icon: string, tone: string}>} */
const LOOKS = {
  writing: { icon: "pencil", tone: "working" },
  queued: { icon: "hourglass", tone: "" },
  permission: { icon: "hand", tone: "waiting" },
  answer: { icon: "hand", tone: "waiting" },
  running: { icon: "loader-circle", tone: "working" },
  background: { icon: "activity", tone: "working" },
  done: { icon: "check", tone: "done" },
  failed: { icon: "circle-x", tone: "wrong" },
  denied: { icon: "slash", tone: "waiting" },
  cancelled: { icon: "circle-slash", tone: "" },
  ended: { icon: "circle-slash", tone: "" },
};

/** @type {Promise<{bodyOf: (feed: SessionFeed, call: Call, kind: string) => unknown}> | null} */
let bodies = null;

/** Properties: the `feed`, the `message` and the part of the call, and its `text` so that new words update it. */
class ToolCall extends PageElement {
  static properties = {
    feed: { attribute: false },
    message: { attribute: false },
    callPart: { attribute: false },
    text: { attribute: false },
    isOpenMessage: { attribute: false },
    _isOpen: { state: true },
  };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    /** @type {OpenMessage | null} */
    this.message = null;
    /** @type {OpenPart | null} */
    this.callPart = null;
    this.text = "";
    this.isOpenMessage = false;
    this._isOpen = false;
    /** When this page saw it begin, unix seconds. */
    this._since = 0;
    /** @type {{text: string, head: string}} */
    this._main = { text: "", head: "" };
  }

  /** @param {Set<string>} changes */
  feedChanged(changes) {
    const id = this.callPart?.data["id"];
    if (changes.has(`output ${id}`) || changes.has(`result ${id}`)) this.requestUpdate();
    else if (["permissions", "questions", "runs", "children"].some((topic) => changes.has(topic)) && !this.feed?.state?.results.has(id)) this.requestUpdate();
  }

  render() {
    if (!this.feed || !this.message || !this.callPart) return nothing;
    const call = new Call(this.feed.state, this.message, this.callPart);
    const kind = kindOf(call.name);
    return html`<details class="tool ${call.state}" @toggle=${this._toggled}>
      <summary>
        ${icon(kind.icon)}
        <span class="tool-name">${visible(kind.title)}</span>
        <span class="tool-main">${this._mainOf(kind)}</span>
        ${this._facts(call)}
        ${this._state(call)}
      </summary>
      ${this._isOpen ? html`<div class="tool-body">${this._body(call, kind.body)}</div>` : nothing}
    </details>`;
  }

  /** @param {Event} event */
  _toggled(event) {
    if (event.target === event.currentTarget) this._isOpen = /** @type {HTMLDetailsElement} */ (event.target).open;
  }

  /** The argument in the line, read again only while its text grows. @param {Kind} kind */
  _mainOf(kind) {
    const head = this.text.slice(0, HEAD_LENGTH);
    if (head !== this._main.head) {
      const { values } = readArguments(this.text.length > HEAD_LENGTH ? head : this.text);
      this._main = { head, text: visible(kind.main(values).slice(0, MAIN_LENGTH).replace(/\s+/g, " ").trim()) };
    }
    return this._main.text;
  }

  /** Figures of a finished call. @param {Call} call */
  _facts(call) {
    const { additions, removals, start_time: start, end_time: end, number_of_matches: matches, number_of_files: files, completed, total } = call.metadata;
    if (!call.isOver) return nothing;
    if (Number.isInteger(additions) && Number.isInteger(removals)) {
      return html`<span class="tool-fact"><span class="added">+${count(additions)}</span> <span class="removed">−${count(removals)}</span></span>`;
    }
    const code = call.exitCode;
    const time = start && end > start ? duration((end - start) / 1000) : "";
    if (code) return html`<span class="tool-fact wrong">${t("tool.exit_code", { code })}</span>`;
    if (time && code !== null) return html`<span class="tool-fact">${time}</span>`;
    if (Number.isInteger(matches)) return html`<span class="tool-fact">${t("tool.matches", { n: matches })}</span>`;
    if (Number.isInteger(files)) return html`<span class="tool-fact">${t("tool.files", { n: files })}</span>`;
    if (Number.isInteger(total) && Number.isInteger(completed)) return html`<span class="tool-fact">${t("tool.todos_done", { completed, total })}</span>`;
    return nothing;
  }

  /** @param {Call} call */
  _state(call) {
    const shown = call.exitCode ? LOOKS.failed : LOOKS[call.state];
    const words = t(`tool.state_${call.exitCode ? "failed" : call.state}`);
    // What is over as expected needs no word on the screen; its sign has another form, and a name.
    if (call.state === "done" && !call.exitCode) return html`<span class="tool-state done" title=${words}>${icon(shown.icon, words)}</span>`;
    if (call.state === "running") this._since ||= call.message.isOpen ? Date.now() / 1000 : startOf(call);
    return html`<span class="tool-state badge ${shown.tone}">${icon(shown.icon)}<span>${words}${call.state === "running"
      ? html` <c-elapsed .since=${this._since}></c-elapsed>`
      : nothing}</span></span>`;
  }

  /** @param {Call} call @param {string} kind */
  _body(call, kind) {
    const feed = this.feed;
    if (this._bodyOf && feed) return this._bodyOf(feed, call, kind);
    bodies ??= import("./bodies.js");
    return until(
      bodies.then(({ bodyOf }) => {
        this._bodyOf = bodyOf;
        this.requestUpdate();
      }),
      html`<p class="quiet small" role="status">${t("state.loading")}</p>`,
    );
  }
}

/** When the reply with this call ended, which is when its tools began. @param {Call} call */
function startOf(call) {
  const finish = call.message.parts.find((part) => part.type === "finish");
  return Number(finish?.data["time"]) || call.message.head.updated_at || Date.now() / 1000;
}

customElements.define("c-tool-call", ToolCall);
