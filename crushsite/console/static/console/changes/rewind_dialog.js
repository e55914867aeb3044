// Rewind: which messages and files it will change, then the result of each file, and its undo.

import { html, nothing } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { at, get, post, query } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { visible } from "../text/visible.js";

const MOST = 100; // messages of a preview

class RewindDialog extends PageElement {
  static properties = { feed: { attribute: false }, messageId: { attribute: false }, _withFiles: { state: true }, _preview: { state: true }, _error: { state: true }, _rewind: { state: true } };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    this.messageId = "";
    this._withFiles = true;
    /** What was done. @type {Schemas["Rewind"] | null} */
    this._rewind = null;
    /** What would be done; null while it is read. @type {Schemas["RewindPreview"] | null} */
    this._preview = null;
    this._error = "";
  }

  firstUpdated() {
    this.querySelector("dialog")?.showModal();
    void this._look();
  }

  /** Reads what would be done, as the server sees it now. */
  async _look() {
    const withFiles = this._withFiles;
    this._preview = null;
    this._error = "";
    try {
      const preview = await get(`${this._path}/preview${query(this._fields)}`);
      if (withFiles === this._withFiles) this._preview = preview;
    } catch (error) {
      if (withFiles === this._withFiles) this._error = error instanceof Error ? error.message : String(error);
    }
  }

  get _fields() {
    return { message_id: this.messageId, keeps_message: this._keepsMessage, with_files: this._withFiles };
  }

  /** A prompt is removed with what it led to; after a reply, the reply stays. */
  get _keepsMessage() {
    return this.feed?.state?.messages.get(this.messageId)?.head.role !== "user";
  }

  get _path() {
    return at`workspaces/${this.feed?.workspaceId ?? ""}/sessions/${this.feed?.sessionId ?? ""}/rewinds`;
  }

  async _apply() {
    const made = await attempt(() => post(this._path, this._fields));
    if (!made) return;
    this._rewind = made;
    announce(t("rewind.done"));
    await this.updateComplete;
    this.querySelector("h2")?.focus();
  }

  async _undo() {
    const undone = await attempt(() => post(`${this._path}/${encodeURIComponent(this._rewind?.id ?? "")}/undo`));
    if (!undone) return;
    announce(t("rewind.undone"));
    this._close();
  }

  _close() {
    this.querySelector("dialog")?.close();
  }

  render() {
    return html`<dialog aria-labelledby="rewind-title" @close=${() => {
      this.remove();
      /** @type {HTMLElement | null} */ (document.querySelector("c-composer textarea"))?.focus();
    }}>
      <h2 id="rewind-title" tabindex="-1">${t(this._rewind ? "rewind.done" : "rewind.title")}</h2>
      ${this._rewind ? this._result(this._rewind) : this._question()}
    </dialog>`;
  }

  _question() {
    return html`<form class="rewind" method="dialog" @submit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      void this._apply();
    }}>
      ${this._error ? html`<p class="wrong" role="alert">${this._error}</p>` : this._preview ? this._shown(this._preview) : html`<p class="quiet" role="status">${t("state.loading")}</p>`}
      <label class="check"><input type="checkbox" .checked=${this._withFiles} @change=${(/** @type {any} */ event) => {
        this._withFiles = event.target.checked;
        void this._look();
      }} />
        <span>${t("rewind.with_files")}</span></label>
      <p class="quiet small">${t("rewind.commands")}</p>
      <div class="dialog-actions">
        <button type="button" class="button" @click=${() => this._close()}>${t("action.cancel")}</button>
        <button class="button danger" ?disabled=${this._preview === null || this._preview.is_busy}>${t("rewind.apply")}</button>
      </div>
    </form>`;
  }

  /** @param {Schemas["RewindPreview"]} preview */
  _shown(preview) {
    const { message_count: n, messages, files } = preview;
    const more = messages.length === MOST ? html`<li class="quiet">${t("rewind.more")}</li>` : nothing;
    return html`<p>${t("rewind.removes", { n })}</p>
      ${messages.length > 0
        ? html`<ul class="rewind-messages" tabindex="0" aria-label=${t("rewind.messages")}>
            ${messages.map((each) => html`<li><span class="quiet small">${t(each.role === "user" ? "rewind.prompt" : "rewind.reply")}</span>
              <span class="cut">${visible(each.first_line) || t("rewind.no_text")}</span></li>`)}${more}
          </ul>`
        : nothing}
      ${this._withFiles ? this._files(files.filter((each) => each.result !== "left"), files.filter((each) => each.result === "left")) : nothing}
      ${preview.is_busy ? html`<p class="wrong" role="alert">${t("rewind.busy")}</p>` : nothing}`;
  }

  /** @param {Schemas["RewoundFile"][]} changed @param {Schemas["RewoundFile"][]} left */
  _files(changed, left) {
    if (changed.length + left.length === 0) return html`<p class="quiet">${t("rewind.no_files")}</p>`;
    return html`${changed.length > 0 ? html`<p class="label">${t("rewind.will_change")}</p>${fileList(changed, t("rewind.will_change"))}` : nothing}
      ${left.length > 0 ? html`<p class="label">${t("rewind.will_leave")}</p>${fileList(left, t("rewind.will_leave"))}` : nothing}`;
  }

  /** @param {Schemas["Rewind"]} rewind */
  _result(rewind) {
    return html`<div class="rewind">
      ${rewind.files.length > 0
        ? fileList(rewind.files, t("rewind.files"))
        : html`<p class="quiet">${t("rewind.no_files")}</p>`}
      <div class="dialog-actions">
        <button type="button" class="button" @click=${() => void this._undo()}>${t("rewind.undo")}</button>
        <button type="button" class="button primary" @click=${() => this._close()}>${t("action.close")}</button>
      </div>
    </div>`;
  }
}

customElements.define("c-rewind-dialog", RewindDialog);

/** @param {readonly Schemas["RewoundFile"][]} files @param {string} label */
const fileList = (files, label) => html`<ul class="rewind-files" tabindex="0" aria-label=${label}>
  ${files.map((file) => html`<li><span class="mono">${visible(file.path)}</span>: ${t(`rewind.${file.result}`)}${file.reason ? ` (${t(`rewind.${file.reason}`)})` : nothing}</li>`)}
</ul>`;

/** @param {SessionFeed} feed @param {string} messageId */
export function openRewind(feed, messageId) {
  const dialog = /** @type {any} */ (document.createElement("c-rewind-dialog"));
  Object.assign(dialog, { feed, messageId });
  document.getElementById("content")?.append(dialog);
}
