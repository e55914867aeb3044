// Where a person writes prompts, and stops what runs.

import { html, nothing } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { at, post } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { icon } from "../core/icons.js";
import { registerKeys } from "../core/keys.js";
import { rightsIn } from "../core/rights.js";
import { t } from "../core/strings.js";
import { attempt, notify, notifyError } from "../core/toasts.js";
import { asFields, attachmentList, readFiles, release } from "./attachments.js";
import { commandIn } from "./commands.js";
import { draftOf, keepDraft, watchDraft } from "./drafts.js";
import { asOptions, optionsOf } from "./options.js";
import "./suggestions.js";

const STRATEGIES = /** @type {const} */ (["enqueue", "steer", "interrupt", "rollback", "reject"]);
const ESCAPE_TIME = 1500;
// The prompt may have been accepted: it is sent again with the same run id, and then counts once.
const UNCERTAIN = new Set(["connection_lost", "no_reply", "unreachable"]);

class Composer extends PageElement {
  static properties = {
    feed: { attribute: false },
    _files: { state: true },
    _can: { state: true },
    _hasOptions: { state: true },
    _isDropping: { state: true },
    _pending: { state: true },
  };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    /** @type {any[]} */
    this._files = [];
    this._can = new Set(["prompt", "cancel"]);
    this._hasOptions = false;
    this._isDropping = false;
    this._strategy = "enqueue";
    this._escapedAt = 0;
    /** The prompt that is being sent. @type {Record<string, unknown> | null} */
    this._pending = null;
  }

  connectedCallback() {
    super.connectedCallback();
    const feed = this.feed;
    if (!feed) return;
    this._leave = [
      feed.subscribe((changes) => {
        if (!["all", "runs", "status"].some((topic) => changes.has(topic))) return;
        this.requestUpdate();
        if (changes.has("status") && feed.status === "live" && this._pending?.["isUncertain"]) void this._deliver();
      }),
      watchDraft(feed.sessionId, (text) => this._write(text)),
      registerKeys([{ key: "Escape", label: t("composer.stop"), inFields: true, run: () => this._escape() }]),
    ];
    // Dropped beside the field, a file would replace the page.
    for (const type of /** @type {const} */ (["dragover", "dragleave", "drop"])) {
      const dragged = (/** @type {DragEvent} */ event) => this._dragged(event);
      document.addEventListener(type, dragged);
      this._leave.push(() => document.removeEventListener(type, dragged));
    }
    rightsIn(feed.workspaceId).then((can) => (this._can = can), () => {});
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    for (const leave of this._leave ?? []) leave();
    this._files.forEach(release);
  }

  firstUpdated() {
    this._write(draftOf(this.feed?.sessionId ?? ""));
  }

  /** @returns {HTMLTextAreaElement | null} */
  get _field() {
    return this.querySelector("textarea");
  }

  /** @param {string} text */
  _write(text) {
    if (this._field && this._field.value !== text) this._field.value = text;
  }

  _typed() {
    const field = this._field;
    if (!field || !this.feed) return;
    keepDraft(this.feed.sessionId, field.value);
    this._suggestions.look(field);
  }

  get _suggestions() {
    return /** @type {any} */ (this.querySelector("c-suggestions"));
  }

  /** @param {KeyboardEvent} event */
  _keyPressed(event) {
    if (event.isComposing || this._suggestions.keyPressed(event)) return;
    if (event.key === "Enter" && !event.shiftKey) void this._send(event);
  }

  /** @param {Event} event */
  async _send(event) {
    event.preventDefault();
    const feed = this.feed;
    const text = this._field?.value.trim() ?? "";
    if (!feed || this._pending || !(text || this._files.length > 0)) return;
    const command = commandIn(feed, text);
    if (command) {
      const done = await attempt(async () => [await command.run()]);
      if (done) this._clear();
      return;
    }
    if (!text && !this._files.some((file) => file.type.startsWith("text/"))) {
      notifyError(new Error(t("composer.needs_text")));
      return;
    }
    if (feed.status !== "live") {
      announce(t("composer.lost"), { urgent: true });
      return;
    }
    const strategy = feed.state?.isBusy ? this._strategy : "enqueue";
    const options = strategy === "steer" ? undefined : asOptions(optionsOf(feed.sessionId));
    this._pending = { text, run_id: crypto.randomUUID(), strategy, options, attachments: asFields(this._files) };
    await this._deliver();
  }

  /** Sends the pending prompt; after a lost connection this is repeated with the same run id. */
  async _deliver() {
    const feed = this.feed;
    const pending = this._pending;
    if (!feed || !pending) return;
    const { isUncertain: _, attachments, ...fields } = pending;
    const files = /** @type {unknown[]} */ (attachments);
    const wasBusy = feed.state?.isBusy ?? false;
    try {
      // A message on the socket is limited; the REST interface takes larger files.
      if (files.length > 0) {
        const path = at`workspaces/${feed.workspaceId}/sessions/${feed.sessionId}/prompts`;
        await post(path, { ...fields, attachments: files }, { key: String(fields["run_id"]) });
      } else await feed.send("prompt", { session_id: feed.sessionId, ...fields });
    } catch (error) {
      const code = /** @type {any} */ (error).code ?? "";
      this._pending = UNCERTAIN.has(code) ? { ...pending, isUncertain: true } : null;
      if (!this._pending) notifyError(error);
      else announce(t("composer.repeating"), { urgent: true });
      return;
    }
    this._pending = null;
    this._clear();
    announce(t(wasBusy ? "composer.queued" : "composer.sent"));
  }

  _clear() {
    this._write("");
    keepDraft(this.feed?.sessionId ?? "", "");
    this._files.forEach(release);
    this._files = [];
    this._suggestions?.close();
  }

  _escape() {
    if (!this.feed?.state?.isBusy || !this._can.has("cancel")) return;
    if (performance.now() - this._escapedAt < ESCAPE_TIME) void this._stop();
    else announce(t("composer.stop_again"));
    this._escapedAt = performance.now();
  }

  /** Ends everything that the session has accepted, and says what that was. */
  async _stop() {
    const feed = this.feed;
    if (!feed?.state) return;
    const isRunning = feed.state.current !== undefined;
    const queued = isRunning ? feed.state.queue.length : [...feed.state.runs.values()].filter((run) => run.state === "accepted").length;
    const done = await attempt(async () => [await feed.send("cancel", { session_id: feed.sessionId })]);
    if (!done) return;
    if (!isRunning) notify(t("composer.removed_queue", { n: queued }));
    else notify(queued > 0 ? t("composer.stopped_queue", { n: queued }) : t("composer.stopped"));
    this._field?.focus();
  }

  /** @param {Iterable<File>} files */
  async _attach(files) {
    const read = await attempt(() => readFiles(files, this._files));
    if (read) this._files = [...this._files, ...read];
  }

  /** @param {any} file */
  _detach(file) {
    release(file);
    this._files = this._files.filter((each) => each !== file);
    this._field?.focus();
  }

  /** @param {ClipboardEvent} event */
  _pasted(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    void this._attach(files);
  }

  /** @param {DragEvent} event */
  _dragged(event) {
    if (!event.dataTransfer?.types.includes("Files") || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    this._isDropping = event.type === "dragover" && this._can.has("prompt");
    if (event.type === "drop" && this._can.has("prompt")) void this._attach(event.dataTransfer.files);
  }

  /** @param {CustomEvent} event */
  _taken(event) {
    const field = this._field;
    const { word, text, file } = event.detail;
    if (!field) return;
    field.setRangeText(text, word.start, word.end, "end");
    if (file) this._files = [...this._files, file];
    field.focus();
    this._typed();
  }

  async _toggleOptions() {
    if (!this._hasOptions) await import("./options.js");
    this._hasOptions = !this._hasOptions;
  }

  render() {
    const feed = this.feed;
    if (!feed) return nothing;
    if (!this._can.has("prompt")) return html`<p class="composer-note quiet" role="note">${t("composer.forbidden")}</p>${this._stopButton(feed)}`;
    return html`<form class="composer ${this._isDropping ? "dropping" : ""}" @submit=${this._send}
      @options-changed=${() => this.requestUpdate()} @suggestion-taken=${this._taken}>
      <c-suggestions .feed=${feed}></c-suggestions>
      ${attachmentList(this._files, (file) => this._detach(file))}
      <textarea aria-label=${t("composer.label")} placeholder=${t("composer.placeholder")} rows="1" aria-autocomplete="list" ?readonly=${this._pending !== null}
        @input=${this._typed} @click=${this._typed} @blur=${() => this._suggestions.close()} @paste=${this._pasted} @keydown=${this._keyPressed}></textarea>
      ${this._hasOptions ? html`<c-prompt-options .feed=${feed}></c-prompt-options>` : nothing}
      <div class="composer-actions">
        <input type="file" multiple hidden @change=${(/** @type {any} */ event) => {
          void this._attach(event.target.files);
          event.target.value = "";
        }} />
        <button type="button" class="icon-button" aria-label=${t("composer.attach")} title=${t("composer.attach")}
          @click=${() => /** @type {HTMLElement | null} */ (this.querySelector("input[type=file]"))?.click()}>${icon("paperclip")}</button>
        ${this._optionsButton(feed)}
        <span class="composer-space"></span>
        ${feed.state?.isBusy ? this._strategies() : nothing} ${this._stopButton(feed)}
        <button class="button primary" ?disabled=${feed.status !== "live" || this._pending !== null}>${icon("send")}${t("composer.send")}</button>
      </div>
      ${this._note(feed)}
    </form>`;
  }

  /** @param {SessionFeed} feed */
  _note(feed) {
    if (this._pending?.["isUncertain"]) return html`<p class="composer-note" role="status">${t("composer.repeating")}</p>`;
    return feed.status === "lost" ? html`<p class="composer-note" role="status">${t("composer.lost")}</p>` : nothing;
  }

  /** @param {SessionFeed} feed */
  _optionsButton(feed) {
    const label = t(asOptions(optionsOf(feed.sessionId)) ? "options.chosen" : "options.button");
    return html`<button type="button" class="icon-button" aria-label=${label} title=${label} aria-expanded=${this._hasOptions ? "true" : "false"}
      @click=${() => void this._toggleOptions()}>${icon("settings")}</button>`;
  }

  _strategies() {
    return html`<select class="input strategy" aria-label=${t("composer.strategy")} @change=${(/** @type {any} */ event) => (this._strategy = event.target.value)}>
      ${STRATEGIES.map((name) => html`<option value=${name} ?selected=${name === this._strategy}>${t(`strategy.${name}`)}</option>`)}
    </select>`;
  }

  /** @param {SessionFeed} feed */
  _stopButton(feed) {
    if (!feed.state?.isBusy || !this._can.has("cancel")) return nothing;
    return html`<button type="button" class="button danger" title=${t("composer.stop_hint")} @click=${() => void this._stop()}>${icon("circle-stop")}${t("composer.stop")}</button>`;
  }
}

customElements.define("c-composer", Composer);
