// How much waits: beside the inbox in the navigation, in the page's title, and on the app's icon.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { t } from "../core/strings.js";
import { watchNotifications } from "./notifications.js";
import { waiting } from "./waiting.js";

class WaitingCount extends PageElement {
  constructor() {
    super();
    this._shown = 0;
    // Pages set the title. The number stays in front of it.
    this._titles = new MutationObserver(() => this._title());
  }

  connectedCallback() {
    super.connectedCallback();
    this._leave = waiting.subscribe(() => this._changed());
    const title = document.querySelector("title");
    if (title) this._titles.observe(title, { childList: true, characterData: true, subtree: true });
    this._changed();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._leave?.();
    this._titles.disconnect();
  }

  _changed() {
    const count = waiting.items?.length ?? 0;
    if (count === this._shown) return;
    this._shown = count;
    this.requestUpdate();
    this._title();
    const badge = /** @type {any} */ (navigator);
    void (count > 0 ? badge.setAppBadge?.(count) : badge.clearAppBadge?.())?.catch?.(() => {}); // only installed apps have one
  }

  _title() {
    const plain = document.title.replace(/^\(\d+\) /, "");
    const title = this._shown > 0 ? `(${this._shown}) ${plain}` : plain;
    if (document.title !== title) document.title = title;
  }

  render() {
    const count = this._shown;
    if (count === 0) return nothing;
    return html`<span class="waiting-count"><span aria-hidden="true">${count}</span><span class="hidden-text">${t("inbox.count", { n: count, count })}</span></span>`;
  }
}

watchNotifications();
customElements.define("c-waiting-count", WaitingCount);
