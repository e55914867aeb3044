// Short messages at the edge of the page: what failed, or what was done.

import { html, nothing, repeat } from "../vendor/lit.js";
import { announce } from "./announce.js";
import { PageElement } from "./element.js";
import { icon } from "./icons.js";
import { t } from "./strings.js";

const SECONDS = 6;

/** @param {string} text */
export const notify = (text) => document.dispatchEvent(new CustomEvent("toast", { detail: { text, isError: false } }));

/** Shows why something failed, in the server's words. @param {unknown} error */
export function notifyError(error) {
  const text = error instanceof Error ? error.message : String(error);
  document.dispatchEvent(new CustomEvent("toast", { detail: { text, isError: true } }));
}

/** Runs an action of a person, and shows its error. @template T @param {() => Promise<T>} action @returns {Promise<T | undefined>} */
export async function attempt(action) {
  try {
    return await action();
  } catch (error) {
    notifyError(error);
    return undefined;
  }
}

class Toasts extends PageElement {
  static properties = { _shown: { state: true } };

  constructor() {
    super();
    /** @type {{id: number, text: string, isError: boolean}[]} */
    this._shown = [];
    this._count = 0;
    this._add = (/** @type {Event} */ event) => this.add(/** @type {CustomEvent} */ (event).detail);
  }

  connectedCallback() {
    super.connectedCallback();
    document.addEventListener("toast", this._add);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    document.removeEventListener("toast", this._add);
  }

  /** @param {{text: string, isError: boolean}} toast */
  add(toast) {
    const id = ++this._count;
    this._shown = [...this._shown.slice(-3), { ...toast, id }];
    announce(toast.text, { urgent: toast.isError });
    // An error stays until it is dismissed: it may need to be read twice.
    if (!toast.isError) setTimeout(() => this._remove(id), SECONDS * 1000);
  }

  /** @param {number} id */
  _remove(id) {
    this._shown = this._shown.filter((each) => each.id !== id);
  }

  render() {
    if (this._shown.length === 0) return nothing;
    // A landmark without a live region: `announce` has read the texts.
    return html`<section class="toasts" aria-label=${t("app.messages")}><ul class="toast-list">
      ${repeat(this._shown, (each) => each.id, (each) => html`<li class=${each.isError ? "toast wrong" : "toast"}>
        ${icon(each.isError ? "circle-alert" : "circle-check")}
        <span>${each.text}</span>
        <button class="icon-button" aria-label=${t("error.dismiss")} @click=${() => this._remove(each.id)}>${icon("x")}</button>
      </li>`)}
    </ul></section>`;
  }
}

customElements.define("c-toasts", Toasts);
