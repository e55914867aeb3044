// The prompts that wait behind the running one: edit, order, promote, remove. Every tab shows the same,
// because the stream sends each change.

import { html, nothing, repeat } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { at, get } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import "../core/menu.js";

const FIRST_LOOK_MS = 1000;
const LOOK_MS = 2000;
const ORDINALS = new Intl.PluralRules("en", { type: "ordinal" });

class Queue extends PageElement {
  static properties = { feed: { attribute: false }, _edited: { state: true }, _dragged: { state: true }, _place: { state: true } };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    /** The prompt that is being edited, with its text. @type {{key: number, text: string} | null} */
    this._edited = null;
    this._dragged = 0;
    /** The prompt that waits for a worker, and its place among those of all users. */
    this._next = 0;
    this._place = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this._timer = undefined;
    /** What had the focus before an update. @type {HTMLElement | null} */
    this._focused = null;
  }

  connectedCallback() {
    super.connectedCallback();
    this._leave = this.feed?.subscribe((changes) => {
      if (!changes.has("all") && !changes.has("runs")) return;
      this._watch(this.feed?.state?.next?.key ?? 0);
      this.requestUpdate();
    });
    this._watch(this.feed?.state?.next?.key ?? 0);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._leave?.();
    this._watch(0);
  }

  /** Looks for the place of this prompt as long as it waits for a worker. @param {number} key */
  _watch(key) {
    if (key === this._next) return;
    this._next = key;
    this._place = 0;
    clearTimeout(this._timer);
    if (key) this._timer = setTimeout(() => void this._look(key), FIRST_LOOK_MS);
  }

  /** @param {number} key */
  async _look(key) {
    // After an error the next look tries again.
    const run = await get(at`workspaces/${this.feed?.workspaceId ?? ""}/runs/${key}`).catch(() => null);
    if (key !== this._next) return;
    this._place = run?.queue_place ?? 0;
    this._timer = setTimeout(() => void this._look(key), LOOK_MS);
  }

  willUpdate() {
    this._focused = this.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
  }

  updated() {
    // A row that was moved loses the focus; it comes back at once, because the next key may follow quickly.
    if (this._focused && this._focused !== document.activeElement && this.contains(this._focused)) this._focused.focus({ preventScroll: true });
    this._focused = null;
  }

  get _waiting() {
    return this.feed?.state?.queue ?? [];
  }

  /** @param {string} command @param {Record<string, unknown>} fields @returns {Promise<boolean>} */
  async _send(command, fields) {
    const done = await attempt(async () => {
      await this.feed?.send(command, fields);
      return true;
    });
    return done ?? false;
  }

  /** @param {number} key @param {number} to */
  async _move(key, to) {
    const keys = this._waiting.map((run) => run.key);
    const from = keys.indexOf(key);
    if (from < 0 || to < 0 || to >= keys.length || from === to) return;
    keys.splice(from, 1);
    keys.splice(to, 0, key);
    if (await this._send("reorder_queue", { session_id: this.feed?.sessionId, keys })) {
      announce(t("queue.moved", { place: to + 1, n: keys.length }));
    }
  }

  /** @param {Run} run */
  async _edit(run) {
    let text = run.prompt ?? "";
    if (text.length >= 2000) {
      const whole = await attempt(() => get(at`workspaces/${this.feed?.workspaceId ?? ""}/runs/${run.key}`));
      if (!whole) return;
      text = whole.prompt;
    }
    this._edited = { key: run.key, text };
    await this.updateComplete;
    this.querySelector("textarea")?.focus();
  }

  async _save() {
    const edited = this._edited;
    if (!edited) return;
    if (await this._send("edit_queued", edited)) await this._endEdit(edited.key);
  }

  /** @param {number} key */
  async _endEdit(key) {
    this._edited = null;
    await this.updateComplete;
    /** @type {HTMLElement | null} */ (this.querySelector(`[data-key="${key}"] .queue-grip`))?.focus();
  }

  /** @param {Run} run */
  async _remove(run) {
    if (!(await this._send("remove_queued", { key: run.key }))) return;
    announce(t("queue.removed"));
    /** @type {HTMLElement | null} */ (document.querySelector("c-composer textarea"))?.focus();
  }

  /** @param {Run} run */
  async _steer(run) {
    if (await this._send("steer_queued", { key: run.key })) announce(t("queue.steered"));
  }

  render() {
    const waiting = this._waiting;
    return html`${this._placed()}${waiting.length > 0 ? this._list(waiting) : nothing}`;
  }

  _placed() {
    if (this._place === 0) return nothing;
    const key = /** @type {"queue.place_other"} */ (`queue.place_${ORDINALS.select(this._place)}`);
    return html`<p class="queue-place quiet small" role="status">${t(key, { n: this._place })}</p>`;
  }

  /** @param {Run[]} waiting */
  _list(waiting) {
    return html`<section class="queue" aria-label=${t("queue.title", { n: waiting.length })}>
      <h2 class="label">${t("queue.title", { n: waiting.length })}</h2>
      <ol class="queue-list">
        ${repeat(waiting, (run) => run.key, (run, index) => this._row(run, index, waiting.length))}
      </ol>
    </section>`;
  }

  /** @param {Run} run @param {number} index @param {number} count */
  _row(run, index, count) {
    const isSummary = run.kind === "summary";
    const text = isSummary ? t("queue.summary") : (run.prompt ?? "").slice(0, 80);
    return html`<li class="queued ${this._dragged === run.key ? "dragged" : ""}" data-key=${run.key}
      @dragover=${(/** @type {DragEvent} */ event) => this._dragged && event.preventDefault()}
      @drop=${(/** @type {DragEvent} */ event) => {
        event.preventDefault();
        void this._move(this._dragged, index);
        this._dragged = 0;
      }}>
      <button type="button" class="icon-button queue-grip" draggable="true" aria-label=${t("queue.grip", { text })} title=${t("queue.grip_hint")}
        @dragstart=${(/** @type {DragEvent} */ event) => {
          this._dragged = run.key;
          event.dataTransfer?.setData("text/plain", text);
        }}
        @dragend=${() => (this._dragged = 0)}
        @keydown=${(/** @type {KeyboardEvent} */ event) => {
          const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
          if (step === undefined) return;
          event.preventDefault();
          void this._move(run.key, index + step);
        }}>${icon("grip-vertical")}</button>
      ${this._edited?.key === run.key ? this._field(this._edited) : html`<div class="queue-text"><span>${isSummary ? text : run.prompt}</span>${this._about(run)}</div>`}
      <c-menu .label=${t("queue.actions", { text })} .items=${[
        { label: t("queue.edit"), icon: "pencil", isDisabled: isSummary, run: () => this._edit(run) },
        { label: t("queue.up"), icon: "arrow-up", isDisabled: index === 0, run: () => this._move(run.key, index - 1) },
        { label: t("queue.down"), icon: "arrow-down", isDisabled: index === count - 1, run: () => this._move(run.key, index + 1) },
        { label: t("queue.steer"), icon: "corner-down-right", isDisabled: isSummary || run.options !== undefined, run: () => this._steer(run) },
        { label: t("queue.remove"), icon: "trash-2", isDanger: true, run: () => this._remove(run) },
      ]}></c-menu>
    </li>`;
  }

  /** Whose it is, and what it chose. @param {Run} run */
  _about(run) {
    const options = Object.entries(/** @type {Record<string, any>} */ (run.options ?? {})).map(([name, value]) => (typeof value === "string" ? value : name));
    const parts = [run.author?.name, run.strategy, ...options].filter(Boolean);
    return parts.length > 0 ? html`<span class="quiet small">${parts.join(" · ")}</span>` : nothing;
  }

  /** @param {{key: number, text: string}} edited */
  _field(edited) {
    return html`<form class="queue-edit" @submit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      void this._save();
    }}>
      <textarea class="input" rows="2" aria-label=${t("queue.text")} .value=${edited.text}
        @input=${(/** @type {any} */ event) => (edited.text = event.target.value)}
        @keydown=${(/** @type {KeyboardEvent} */ event) => {
          if (event.isComposing) return;
          if (event.key === "Escape") {
            event.stopPropagation();
            void this._endEdit(edited.key);
          } else if (event.key === "Enter" && !event.shiftKey) {
            event.preventDefault();
            void this._save();
          }
        }}></textarea>
      <button class="button">${t("action.save")}</button>
      <button type="button" class="button" @click=${() => void this._endEdit(edited.key)}>${t("action.cancel")}</button>
    </form>`;
  }
}

customElements.define("c-queue", Queue);
