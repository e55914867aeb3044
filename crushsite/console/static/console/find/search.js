// The search in the titles and texts of all sessions. The address has the words, so that a search can
// be reloaded, sent to others and returned to.

import { html, live, nothing, repeat } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { everything, get, query } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import "./found_session.js";

const PAUSE = 200; // ms without a key
const PAGE = 50;
const MOST_CHARS = 1000; // the server takes no more

/** @typedef {Schemas["Found"]} Found */

const wordsOfAddress = () => new URLSearchParams(location.search).get("q") ?? "";

class SearchPage extends PageElement {
  static properties = {
    _text: { state: true },
    _found: { state: true },
    _next: { state: true },
    _isComplete: { state: true },
    _isLoading: { state: true },
    _error: { state: true },
    _names: { state: true },
  };

  constructor() {
    super();
    this._text = wordsOfAddress();
    /** What was found for the text; null before. @type {Found[] | null} */
    this._found = null;
    /** @type {string | null} */
    this._next = null;
    this._isComplete = true;
    this._isLoading = false;
    /** @type {Error | null} */
    this._error = null;
    /** Names of workspaces. @type {Map<string, string>} */
    this._names = new Map();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this._timer = undefined;
    this._abort = new AbortController();
    this._moved = () => this._follow();
  }

  connectedCallback() {
    super.connectedCallback();
    addEventListener("popstate", this._moved);
    document.title = `${t("find.title")} – ${t("app.name")}`;
    void this._loadNames();
    void this._search();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    removeEventListener("popstate", this._moved);
    clearTimeout(this._timer);
    this._abort.abort();
  }

  async firstUpdated() {
    // The frame moves the focus to the new page. Here that is the field.
    await new Promise((resolve) => requestAnimationFrame(resolve));
    if (!this._text) this._field?.focus();
  }

  get _field() {
    return /** @type {HTMLInputElement | null} */ (this.querySelector("input"));
  }

  async _loadNames() {
    const names = new Map();
    try {
      for await (const each of everything("board?sessions=1")) names.set(each.id, each.name);
    } catch {
      return; // matches are shown without the names
    }
    this._names = names;
  }

  /** Another address of this page: from the palette, or from the browser's history. */
  _follow() {
    if (!/^\/search\/?$/.test(location.pathname) || wordsOfAddress() === this._text) return;
    this._text = wordsOfAddress();
    void this._search();
  }

  /** @param {InputEvent} event */
  _typed(event) {
    this._text = /** @type {HTMLInputElement} */ (event.target).value;
    history.replaceState(history.state, "", `/search${query({ q: this._text.trim() })}`);
    clearTimeout(this._timer);
    this._timer = setTimeout(() => void this._search(), PAUSE);
  }

  /** @param {Event} event */
  _submitted(event) {
    event.preventDefault();
    void this._search();
  }

  async _search(cursor = "") {
    clearTimeout(this._timer);
    this._abort.abort();
    const words = this._text.trim();
    if (!words) {
      Object.assign(this, { _found: null, _next: null, _error: null, _isLoading: false });
      return;
    }
    this._abort = new AbortController();
    const { signal } = this._abort;
    this._isLoading = true;
    try {
      const page = await get(`search${query({ q: words.slice(0, MOST_CHARS), limit: PAGE, cursor })}`, { signal });
      if (signal.aborted) return;
      this._found = cursor ? [...(this._found ?? []), ...page.items] : page.items;
      this._next = page.next;
      this._isComplete = page.is_complete;
      this._error = null;
      announce(this._count());
    } catch (error) {
      if (signal.aborted) return;
      this._error = error instanceof Error ? error : new Error(String(error));
    }
    this._isLoading = false;
  }

  /** Shows the older matches, and puts the focus on the first of them. */
  async _older() {
    const before = this._found?.length ?? 0;
    await this._search(this._next ?? "");
    await this.updateComplete;
    const first = this._found?.[before];
    if (!first) return;
    const row = this.querySelector(`[data-match="${CSS.escape(first.message_id ?? first.session_id)}"]`);
    /** @type {HTMLElement | null | undefined} */ (row?.querySelector("a") ?? row)?.focus();
  }

  _groups() {
    /** @type {Map<string, Found[]>} */
    const groups = new Map();
    for (const each of this._found ?? []) {
      const group = groups.get(each.session_id);
      if (group) group.push(each);
      else groups.set(each.session_id, [each]);
    }
    return [...groups.entries()];
  }

  _count() {
    const found = this._found ?? [];
    if (found.length === 0) return t("find.nothing");
    const sessions = new Set(found.map((each) => each.session_id)).size;
    return t(this._next === null ? "find.count" : "find.count_more", { n: found.length, s: sessions });
  }

  render() {
    return html`<div class="page search">
      <div class="page-head"><h1>${t("find.title")}</h1></div>
      <form role="search" class="search-form" @submit=${this._submitted}>
        ${icon("search")}
        <input class="input" type="search" enterkeyhint="search" autocomplete="off" spellcheck="false" maxlength=${MOST_CHARS}
          aria-label=${t("find.field")} aria-describedby="search-hint" placeholder=${t("find.placeholder")} .value=${live(this._text)} @input=${this._typed}>
      </form>
      ${this._error ? this._failed(this._error) : nothing}
      ${this._found === null ? nothing : html`<p class="search-count quiet small">${this._count()}</p>`}
      ${this._found !== null && !this._isComplete ? html`<p class="search-note small">${icon("info")}<span>${t("find.incomplete")}</span></p>` : nothing}
      <p id="search-hint" class="quiet small" ?hidden=${(this._found?.length ?? 0) > 0 || this._error !== null}>${t("find.hint")}</p>
      <div class="search-results" aria-busy=${this._isLoading ? "true" : "false"}>
        ${repeat(this._groups(), ([id]) => id, ([, matches]) => html`<c-found-session .items=${matches} .workspace=${this._names.get(matches[0]?.workspace_id ?? "") ?? ""}></c-found-session>`)}
      </div>
      ${this._next === null || this._found === null
        ? nothing
        : html`<button type="button" class="button" ?disabled=${this._isLoading} @click=${() => void this._older()}>${t("find.older")}</button>`}
    </div>`;
  }

  /** @param {Error} error */
  _failed(error) {
    return html`<div class="notice" role="alert">
      <p>${error.message}</p>
      <button type="button" class="button" @click=${() => void this._search()}>${t("error.retry")}</button>
    </div>`;
  }
}

customElements.define("c-search", SearchPage);
