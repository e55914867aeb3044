// The base of every component. Its content is ordinary page content without a shadow root: one style
// sheet, working text search, and headings and live regions that screen readers find.

import { LitElement } from "../vendor/lit.js";

export class PageElement extends LitElement {
  createRenderRoot() {
    return this;
  }

  /** Sends an event that bubbles to the components around this one.
   * @param {string} type
   * @param {unknown} [detail]
   */
  emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail, bubbles: true }));
  }
}
