// A link to an address that a model, a tool or a person wrote.

import { html } from "../vendor/lit.js";

/** Only what a browser may open becomes a link. @param {string} address @param {unknown} text */
export function link(address, text) {
  if (!/^https?:\/\//i.test(address)) return html`<span class="mono">${text}</span>`;
  return html`<a href=${address} target="_blank" rel="noopener noreferrer">${text}</a>`;
}
