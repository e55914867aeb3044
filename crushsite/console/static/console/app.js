// The frame around every page: navigation, the page of the address, and messages at its edge.

import { html, keyed, nothing } from "./vendor/lit.js";
import { PageElement } from "./core/element.js";
import { missing } from "./core/empty.js";
import { icon } from "./core/icons.js";
import { shownKey } from "./core/keys.js";
import { placeOf } from "./core/routes.js";
import { addTexts, t } from "./core/strings.js";
import { openPalette, PALETTE_KEY, watchFrameKeys } from "./find/shortcuts.js";

const loadUsage = async () => {
  addTexts(await import("./strings/en_usage.js"));
  await import("./usage/usage.js");
};
const loadSettings = async () => {
  addTexts(await import("./strings/en_settings.js"));
  await import("./settings/settings.js");
};

// Its files at once, instead of finding one after the other.
const loadSession = () =>
  Promise.all([import("./session/session.js"), import("./stream/session_feed.js"), import("./vendor/marked.js")]);

/**
 * Pages load when they are first shown. The two that people open first come with the frame.
 * @type {Record<string, {load: () => Promise<unknown>, show: (place: Place) => unknown}>}
 */
const PAGES = {
  usage: { load: loadUsage, show: () => html`<c-usage></c-usage>` },
  settings: {
    load: loadSettings,
    show: (place) => keyed("", html`<c-settings .section=${place.section ?? ""}></c-settings>`),
  },
  "workspace-settings": {
    load: loadSettings,
    show: (place) =>
      keyed(place.workspace, html`<c-settings .workspaceId=${place.workspace ?? ""} .section=${place.section ?? ""}></c-settings>`),
  },
  board: { load: () => import("./board/board.js"), show: () => html`<c-board></c-board>` },
  workspace: {
    load: () => import("./board/board.js"),
    show: (place) => keyed(place.workspace, html`<c-board .workspaceId=${place.workspace}></c-board>`),
  },
  session: {
    load: loadSession,
    show: (place) =>
      keyed(
        `${place.workspace}/${place.session}`,
        html`<c-session .workspaceId=${place.workspace} .sessionId=${place.session}></c-session>`,
      ),
  },
  inbox: { load: () => import("./cards/inbox.js"), show: () => html`<c-inbox></c-inbox>` },
  changes: {
    load: () => import("./changes/changes.js"),
    show: (place) =>
      keyed(
        `${place.workspace}/${place.session}`,
        html`<c-changes .workspaceId=${place.workspace} .sessionId=${place.session}></c-changes>`,
      ),
  },
  search: { load: () => import("./find/search.js"), show: () => html`<c-search></c-search>` },
};

/** @type {{page: string, href: string, icon: string, label: StringKey}[]} */
const LINKS = [
  { page: "board", href: "/", icon: "layout-dashboard", label: "nav.board" },
  { page: "inbox", href: "/inbox", icon: "inbox", label: "nav.inbox" },
  { page: "search", href: "/search", icon: "search", label: "nav.search" },
  { page: "usage", href: "/usage", icon: "coins", label: "nav.usage" },
  { page: "settings", href: "/settings", icon: "settings", label: "nav.settings" },
];

const RETRY_MILLISECONDS = 2000;

class App extends PageElement {
  static properties = { _place: { state: true }, _isSignedOut: { state: true }, _loaded: { state: true }, _isUnreachable: { state: true } };

  constructor() {
    super();
    this._place = placeOf(location.pathname);
    this._isSignedOut = false;
    this._isUnreachable = false;
    /** @type {Set<string>} */
    this._loaded = new Set();
    this._moved = () => this._show();
    this._signedOut = () => {
      this._isSignedOut = true;
    };
  }

  createRenderRoot() {
    // The page's first frame, which the server has sent.
    this.replaceChildren();
    return this;
  }

  connectedCallback() {
    super.connectedCallback();
    addEventListener("popstate", this._moved);
    document.addEventListener("signed-out", this._signedOut);
    this._leaveKeys = watchFrameKeys();
    void this._show().then(() => this._loadMore());
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    removeEventListener("popstate", this._moved);
    document.removeEventListener("signed-out", this._signedOut);
    this._leaveKeys?.();
  }

  /** What is needed soon, after the page: the number at the inbox's link, and the page that most links of the board lead to. */
  async _loadMore() {
    try {
      await import("./cards/waiting_count.js");
      if (this._place.page === "board") await loadSession();
    } catch {
      setTimeout(() => this._loadMore(), RETRY_MILLISECONDS);
    }
  }

  async _show() {
    const place = placeOf(location.pathname);
    const page = PAGES[place.page];
    if (page && !this._loaded.has(place.page)) {
      try {
        await page.load();
      } catch {
        // The server is away.
        this._isUnreachable = true;
        setTimeout(() => this._show(), RETRY_MILLISECONDS);
        return;
      }
      this._loaded = new Set([...this._loaded, place.page]);
    }
    this._isUnreachable = false;
    const isOther = this._place.page !== place.page || this._place.session !== place.session;
    this._place = place;
    if (!isOther) return;
    await this.updateComplete;
    // A screen reader starts at the new page, not at the link that led to it.
    document.getElementById("content")?.focus({ preventScroll: true });
  }

  render() {
    return html`
      <a class="skip-link" href="#content">${t("app.skip")}</a>
      <nav class="nav" aria-label=${t("nav.main")}>
        <a class="nav-brand" href="/">${icon("terminal")}<span>${t("app.name")}</span></a>
        <button type="button" class="nav-link nav-palette" aria-keyshortcuts="Control+K Meta+K" aria-haspopup="dialog" @click=${openPalette}>
          ${icon("command")}<span>${t("palette.open")}</span><kbd aria-hidden="true">${shownKey(PALETTE_KEY)}</kbd>
        </button>
        ${LINKS.map(
          (link) => html`<a class="nav-link" href=${link.href} aria-current=${this._place.page === link.page || (link.page === "board" && this._place.page === "workspace") || (link.page === "settings" && this._place.page === "workspace-settings") ? "page" : nothing}>
            ${icon(link.icon)}<span>${t(link.label)}</span>
            ${link.page === "inbox" ? html`<c-waiting-count></c-waiting-count>` : nothing}
          </a>`,
        )}
        <a class="nav-link nav-account" href="/account/">${icon("user")}<span>${t("nav.account")}</span></a>
      </nav>
      <main id="content" tabindex="-1">${this._isSignedOut ? this._signIn() : this._page()}</main>
      <c-toasts></c-toasts>
    `;
  }

  _page() {
    if (this._isUnreachable) return html`<div class="notice" role="status"><p>${t("connection.lost")}</p></div>`;
    const page = PAGES[this._place.page];
    if (!page) return missing(t("app.unknown_page"), t("app.to_board"));
    return this._loaded.has(this._place.page) ? page.show(this._place) : nothing;
  }

  _signIn() {
    const next = encodeURIComponent(location.pathname + location.search);
    return html`<div class="notice" role="alert">
      <p>${t("app.signed_out")}</p>
      <a class="button" href="/sign-in/?next=${next}">${t("app.sign_in")}</a>
    </div>`;
  }
}

customElements.define("c-app", App);
