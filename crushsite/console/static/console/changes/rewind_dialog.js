// Rewind: what will be undone, with or without files, then the result of each file, and its undo.

import { html, nothing } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { at, post } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";

class RewindDialog extends PageElement {
  static properties = { feed: { attribute: false }, messageId: { attribute: false }, _withFiles: { state: true }, _rewind: { state: true } };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    this.messageId = "";
    this._withFiles = true;
    /** What was done. @type {Schemas["Rewind"] | null} */
    this._rewind = null;
    this._removed = 0;
  }

  firstUpdated() {
    // Counted once: afterwards the messages are gone.
    const ids = [...(this.feed?.state?.messages.keys() ?? [])];
    this._removed = ids.length - ids.indexOf(this.messageId) - (this._keepsMessage ? 1 : 0);
    this.requestUpdate();
    this.querySelector("dialog")?.showModal();
  }

  /** A prompt is removed with what it led to; after a reply, the reply stays. */
  get _keepsMessage() {
    return this.feed?.state?.messages.get(this.messageId)?.head.role !== "user";
  }

  get _path() {
    return at`workspaces/${this.feed?.workspaceId ?? ""}/sessions/${this.feed?.sessionId ?? ""}/rewinds`;
  }

  async _apply() {
    const fields = { message_id: this.messageId, keeps_message: this._keepsMessage, with_files: this._withFiles };
    const made = await attempt(() => post(this._path, fields));
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
      <p>${t("rewind.removes", { n: this._removed })}</p>
      <label class="check"><input type="checkbox" .checked=${this._withFiles} @change=${(/** @type {any} */ event) => (this._withFiles = event.target.checked)} />
        <span>${t("rewind.with_files")}</span></label>
      <p class="quiet small">${t("rewind.commands")}</p>
      <div class="dialog-actions">
        <button type="button" class="button" @click=${() => this._close()}>${t("action.cancel")}</button>
        <button class="button danger">${t("rewind.apply")}</button>
      </div>
    </form>`;
  }

  /** @param {Schemas["Rewind"]} rewind */
  _result(rewind) {
    return html`<div class="rewind">
      ${rewind.files.length > 0
        ? html`<ul aria-label=${t("rewind.files")}>
            ${rewind.files.map((file) => html`<li><span class="mono">${file.path}</span>: ${t(`rewind.${file.result}`)}${file.reason ? ` (${t(`rewind.${file.reason}`)})` : nothing}</li>`)}
          </ul>`
        : html`<p class="quiet">${t("rewind.no_files")}</p>`}
      <div class="dialog-actions">
        <button type="button" class="button" @click=${() => void this._undo()}>${t("rewind.undo")}</button>
        <button type="button" class="button primary" @click=${() => this._close()}>${t("action.close")}</button>
      </div>
    </div>`;
  }
}

customElements.define("c-rewind-dialog", RewindDialog);

/** @param {SessionFeed} feed @param {string} messageId */
export function openRewind(feed, messageId) {
  const dialog = /** @type {any} */ (document.createElement("c-rewind-dialog"));
  Object.assign(dialog, { feed, messageId });
  document.getElementById("content")?.append(dialog);
}
