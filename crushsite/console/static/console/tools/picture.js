// An image that came as base64. It is shown from memory by an address that only this page has.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";

// A browser draws these without running anything. An SVG in an <img> could not either, but whoever
// opens the image in a tab of its own would run its scripts with the console's rights.
const TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"]);

/** @param {string} type */
export const isPicture = (type) => TYPES.has(type.toLowerCase());

/** Properties: `data`, base64; `type`, its media type; `label`. */
class Picture extends PageElement {
  static properties = { data: { attribute: false }, type: { attribute: false }, label: { attribute: false } };

  constructor() {
    super();
    this.data = "";
    this.type = "";
    this.label = "";
    this._address = "";
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._revoke();
  }

  connectedCallback() {
    super.connectedCallback();
    this.requestUpdate("data");
  }

  /** @param {Map<string, unknown>} changed */
  willUpdate(changed) {
    if (!changed.has("data") && !changed.has("type")) return;
    this._revoke();
    const bytes = isPicture(this.type) ? bytesOf(this.data) : null;
    if (bytes) this._address = URL.createObjectURL(new Blob([bytes], { type: this.type }));
  }

  _revoke() {
    if (this._address) URL.revokeObjectURL(this._address);
    this._address = "";
  }

  render() {
    if (!this._address) return nothing;
    return html`<a class="picture" href=${this._address} target="_blank" rel="noopener"><img src=${this._address} alt=${this.label} /></a>`;
  }
}

/** @param {string} data */
function bytesOf(data) {
  try {
    return Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

customElements.define("c-picture", Picture);
