// The conversation. At most WINDOW messages are in the page, however long the session is: older ones
// load when the reader scrolls up, and the newest leave. The view stays where the reader is; it
// follows the text only when it was at the end. A change notifies the rows that it concerns.

import { html, nothing, repeat } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { empty } from "../core/empty.js";
import { t } from "../core/strings.js";
import "../changes/rewound.js";
import "./message.js";

const WINDOW = 150;
const FIRST = 20; // rows of the first frame, which fill a tall screen; the others follow after it
const STEP = 50;
const OLDER = 200; // messages of a request, on the way to one of them
const NEAR_END = 48; // pixels

class Transcript extends PageElement {
  static properties = { feed: { attribute: false }, _isAtEnd: { state: true } };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    /** The newest shown message; null: the newest of all. @type {string | null} */
    this._last = null;
    this._isAtEnd = true;
    /** Where the view was after the last scrolling. */
    this._top = 0;
    this._isLoading = false;
    /** Whether the rows above those of the first frame are in the page. */
    this._isFilled = false;
    this._isFilling = false;
    this._resized = new ResizeObserver(() => this._follow());
  }

  connectedCallback() {
    super.connectedCallback();
    this._leave = this.feed?.subscribe((changes) => this._changed(changes));
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._leave?.();
    this._resized.disconnect();
  }

  firstUpdated() {
    const list = this.querySelector(".messages");
    if (list) this._resized.observe(list);
    this._follow();
  }

  updated() {
    if (this._isFilling || !this.feed?.state) return;
    this._isFilling = true;
    // After the frame that shows the newest messages.
    requestAnimationFrame(() => setTimeout(() => this._fill()));
  }

  _fill() {
    this._isFilled = true;
    this.requestUpdate();
  }

  /** @param {Set<string>} changes */
  _changed(changes) {
    if (changes.has("all") || changes.has("messages")) this.requestUpdate();
    const known = this.feed?.state?.messages;
    // While text comes, all changes are those of messages, and the other rows stay as they are.
    const isOfMessages = [...changes].every((change) => change === "messages" || known?.has(change));
    for (const row of /** @type {Iterable<any>} */ (this.querySelector(".messages")?.children ?? [])) {
      if (row.localName === "c-message" && (!isOfMessages || changes.has(row.messageId))) row.feedChanged(changes);
    }
  }

  /** The messages of the window, and whether there are others around it. */
  _shown() {
    const all = [...(this.feed?.state?.messages.values() ?? [])].filter((each) => each.head.role !== "tool");
    const found = this._last === null ? -1 : all.findIndex((each) => each.id === this._last);
    const end = found < 0 ? all.length : found + 1;
    const start = Math.max(0, end - (this._isFilled ? WINDOW : FIRST));
    return { messages: all.slice(start, end), hasEarlier: start > 0 || (this.feed?.state?.hasEarlierMessages ?? false), hasLater: end < all.length };
  }

  get _scroller() {
    return /** @type {HTMLElement | null} */ (this.querySelector(".transcript"));
  }

  _follow() {
    const scroller = this._scroller;
    if (this._isAtEnd && this._last === null && scroller) scroller.scrollTop = scroller.scrollHeight;
  }

  _scrolled() {
    const scroller = this._scroller;
    if (!scroller || !this._isFilled) return;
    const below = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
    const hasMovedUp = scroller.scrollTop < this._top - 1;
    this._top = scroller.scrollTop;
    // Rows get their height when they are first near the view: only the reader leaves the end.
    if (this._last === null && !hasMovedUp && this._isAtEnd) this._follow();
    else this._isAtEnd = this._last === null && below < NEAR_END;
    if (scroller.scrollTop < scroller.clientHeight) void this._earlier();
    else if (below < scroller.clientHeight && this._last !== null) this._later();
  }

  async _earlier() {
    const { messages, hasEarlier } = this._shown();
    const first = messages[0];
    const scroller = this._scroller;
    if (this._isLoading || !hasEarlier || !first || !scroller) return;
    this._isLoading = true;
    try {
      const all = [...(this.feed?.state?.messages.keys() ?? [])];
      if (all.indexOf(first.id) < STEP) await this.feed?.loadEarlier();
      // What is at the top of the window stays at its place on the screen.
      const row = this.querySelector("c-message");
      const top = row?.getBoundingClientRect().top ?? 0;
      if (messages.length >= WINDOW - STEP) this._last = messages[Math.min(messages.length, WINDOW - STEP) - 1]?.id ?? null;
      this.requestUpdate();
      await this.updateComplete;
      if (row?.isConnected) scroller.scrollTop += row.getBoundingClientRect().top - top;
    } finally {
      this._isLoading = false;
    }
  }

  _later() {
    const all = [...(this.feed?.state?.messages.values() ?? [])].filter((each) => each.head.role !== "tool");
    const next = all.findIndex((each) => each.id === this._last) + STEP;
    this._last = next >= all.length - 1 ? null : (all[next]?.id ?? null);
    this.requestUpdate();
  }

  async _toEnd() {
    this._last = null;
    this._isAtEnd = true;
    this.requestUpdate();
    await this.updateComplete;
    this._follow();
  }

  /** Shows a message, loading older ones until it is there. Returns whether it is. @param {string} id */
  async show(id) {
    const isThere = () => this.feed?.state?.messages.has(id) ?? false;
    this._isLoading = true;
    try {
      while (!isThere()) if (!(await this.feed?.loadEarlier(OLDER))) return false;
    } finally {
      this._isLoading = false;
    }
    const all = [...(this.feed?.state?.messages.values() ?? [])].filter((each) => each.head.role !== "tool");
    const index = all.findIndex((each) => each.id === id);
    this._last = index + WINDOW / 2 >= all.length ? null : (all[index + WINDOW / 2]?.id ?? null);
    this._isAtEnd = false;
    this._isFilled = true;
    this.requestUpdate();
    await this.updateComplete;
    // The rows have no height before they have drawn themselves.
    await new Promise((resolve) => requestAnimationFrame(resolve));
    for (const each of this.querySelectorAll(".found")) each.classList.remove("found");
    const row = /** @type {HTMLElement | null} */ (this.querySelector(`[data-message="${CSS.escape(id)}"]`));
    if (!row) return false;
    row.classList.add("found");
    row.tabIndex = -1;
    row.scrollIntoView({ block: "center" });
    row.focus({ preventScroll: true });
    this._scrolled();
    return true;
  }

  render() {
    const { messages, hasEarlier } = this._shown();
    return html`<div class="transcript" tabindex="0" role="log" aria-label=${t("session.conversation")} aria-live="off" @scroll=${this._scrolled}>
        <div class="messages">
          ${hasEarlier ? html`<button class="link earlier" @click=${() => void this._earlier()}>${t("session.earlier")}</button>` : nothing}
          ${messages.length === 0 ? empty("message-square-plus", t("session.empty"), t("session.empty_hint")) : nothing}
          ${repeat(messages, (each) => each.id, (each) => html`<c-message data-message=${each.id} .feed=${this.feed} .messageId=${each.id}></c-message>`)}
          ${this._last === null ? html`<c-rewound .feed=${this.feed}></c-rewound>` : nothing}
        </div>
      </div>
      ${this._isAtEnd
        ? nothing
        : html`<button class="to-end" @click=${() => void this._toEnd()}>${t("session.latest")}</button>`}`;
  }
}

customElements.define("c-transcript", Transcript);
