// Opens a folder of the server as a workspace and starts a session in it. Folders complete as they
// are typed.

import { html, nothing } from "../vendor/lit.js";
import { get, query } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { startSession } from "./workspace_card.js";

const PAUSE = 120;

class OpenFolder extends PageElement {
  static properties = { _folders: { state: true }, _error: { state: true }, _isOpening: { state: true } };

  constructor() {
    super();
    /** @type {string[]} */
    this._folders = [];
    this._error = "";
    this._isOpening = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this._timer = undefined;
  }

  get _dialog() {
    return /** @type {HTMLDialogElement} */ (this.querySelector("dialog"));
  }

  _show() {
    this._error = "";
    this._dialog.showModal();
    this.querySelector("input")?.focus();
    this._complete("");
  }

  /** @param {string} text */
  _complete(text) {
    clearTimeout(this._timer);
    this._timer = setTimeout(async () => {
      try {
        const found = await get(`folders${query({ path: text })}`);
        this._folders = found.items.map((/** @type {{path: string}} */ each) => each.path);
      } catch (error) {
        // Without the right to open new folders nothing is completed; opening says why.
        this._folders = [];
      }
    }, PAUSE);
  }

  /** @param {Event} event */
  async _open(event) {
    event.preventDefault();
    const path = (this.querySelector("input")?.value ?? "").trim();
    if (!path || this._isOpening) return;
    this._isOpening = true;
    this._error = "";
    try {
      await startSession(path);
    } catch (error) {
      this._error = error instanceof Error ? error.message : String(error);
    }
    this._isOpening = false;
  }

  render() {
    return html`<button class="button primary" @click=${this._show}>${icon("folder-open")}${t("board.open_folder")}</button>
      <dialog aria-labelledby="open-folder-title">
        <form class="open-folder" @submit=${this._open}>
          <h2 id="open-folder-title">${t("board.open_folder")}</h2>
          <div class="field">
            <label for="folder-path">${t("board.folder")}</label>
            <input
              id="folder-path" class="input mono" name="path" list="folders" autocomplete="off" spellcheck="false" required
              aria-describedby="folder-help" aria-invalid=${this._error ? "true" : "false"}
              @input=${(/** @type {InputEvent} */ event) => this._complete(/** @type {HTMLInputElement} */ (event.target).value)}
            />
            <datalist id="folders">${this._folders.map((path) => html`<option value=${path}></option>`)}</datalist>
            <p id="folder-help" class="help">${t("board.folder_help")}</p>
          </div>
          ${this._error ? html`<p class="wrong" role="alert">${this._error}</p>` : nothing}
          <div class="dialog-actions">
            <button type="button" class="button" @click=${() => this._dialog.close()}>${t("action.cancel")}</button>
            <button class="button primary" ?disabled=${this._isOpening}>${t("board.start_session")}</button>
          </div>
        </form>
      </dialog>`;
  }
}

customElements.define("c-open-folder", OpenFolder);
