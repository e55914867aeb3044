// The list below the caret's word: files after `@`, commands after `/`. The field keeps the focus; the
// list follows its keys.

import { html, nothing } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { PageElement } from "../core/element.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";

const PAUSE = 80;

class Suggestions extends PageElement {
  static properties = { feed: { attribute: false }, _found: { state: true }, _active: { state: true } };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    /** @type {any[]} */
    this._found = [];
    this._active = 0;
    /** @type {{kind: "file" | "command", start: number, end: number, query: string} | null} */
    this._word = null;
    /** @type {HTMLTextAreaElement | null} */
    this._field = null;
    this._asked = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this._timer = undefined;
    this._abort = new AbortController();
  }

  /** Looks for suggestions for the word at the field's caret. @param {HTMLTextAreaElement} field */
  async look(field) {
    this._field = field;
    const { wordAt } = await import("./completion.js");
    this._word = wordAt(field.value, field.selectionStart);
    this._abort.abort();
    clearTimeout(this._timer);
    if (this._word) this._timer = setTimeout(() => void this._load(), PAUSE);
    else this.close();
  }

  async _load() {
    const { feed, _word: word } = this;
    if (!feed || !word) return;
    this._abort = new AbortController();
    const { signal } = this._abort;
    const { commandsFor, filesFor } = await import("./completion.js");
    /** @type {any[]} */
    let found;
    try {
      found = word.kind === "file" ? await filesFor(feed.workspaceId, word.query, signal) : await commandsFor(feed, word.query);
    } catch {
      found = []; // typing goes on without suggestions
    }
    if (signal.aborted || word !== this._word) return;
    this._found = found.slice(0, 12);
    this._active = 0;
    if (this._found.length > 0) announce(t("composer.suggestion_count", { n: this._found.length }));
  }

  close() {
    clearTimeout(this._timer);
    this._abort.abort();
    this._word = null;
    this._found = [];
  }

  /** Whether the key was for the list. @param {KeyboardEvent} event */
  keyPressed(event) {
    const count = this._found.length;
    if (count === 0) return false;
    if (event.key === "ArrowDown") this._active = (this._active + 1) % count;
    else if (event.key === "ArrowUp") this._active = (this._active + count - 1) % count;
    else if (event.key === "Escape") this.close();
    else if ((event.key === "Enter" && !event.shiftKey) || event.key === "Tab") {
      // A command that is written out is sent by Enter, not completed again.
      const only = this._found[this._active];
      if (event.key === "Enter" && only.text && only.text.trim() === this._field?.value.trim()) {
        this.close();
        return false;
      }
      void this._take(only);
    } else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }

  /** @param {any} suggestion */
  async _take(suggestion) {
    const found = this._word;
    const caret = this._field?.selectionStart ?? 0;
    this.close();
    if (!found || caret < found.start) return;
    // More of the word may have been typed since the list was made.
    const word = { ...found, end: caret };
    const made = suggestion.choose ? await attempt(suggestion.choose) : { text: suggestion.text };
    if (made) this.emit("suggestion-taken", { word, text: "", ...made });
  }

  updated() {
    const field = this._field;
    const isOpen = this._found.length > 0;
    if (!field) return;
    if (isOpen) {
      field.setAttribute("aria-controls", "suggestions");
      field.setAttribute("aria-activedescendant", `suggestion-${this._active}`);
      this.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
    } else {
      field.removeAttribute("aria-controls");
      field.removeAttribute("aria-activedescendant");
    }
  }

  render() {
    if (this._found.length === 0) return nothing;
    return html`<ul id="suggestions" class="suggestions" role="listbox" aria-label=${t("composer.suggestions")}>
      ${this._found.map(
        (each, index) => html`<li id="suggestion-${index}" class="suggestion" role="option" aria-selected=${index === this._active ? "true" : "false"}
          @mousedown=${(/** @type {Event} */ event) => event.preventDefault()} @click=${() => void this._take(each)}>
          ${icon(each.icon)}<span class="suggestion-label">${each.label}</span><span class="quiet small cut">${each.detail}</span>
        </li>`,
      )}
    </ul>`;
  }
}

customElements.define("c-suggestions", Suggestions);
