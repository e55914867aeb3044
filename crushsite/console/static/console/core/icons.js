// Icons of the vendored sprite. They are decoration: the text beside them names the thing.

import { html, nothing } from "../vendor/lit.js";

const SPRITE = document.querySelector("meta[name=console-icons]")?.getAttribute("content") ?? "";

/**
 * @param {string} name
 * @param {string} [label] only where no text is beside the icon
 */
export function icon(name, label) {
  return html`<svg class="icon" aria-hidden=${label ? nothing : "true"} role=${label ? "img" : nothing} aria-label=${label ?? nothing}>
    <use href="${SPRITE}#${name}"></use>
  </svg>`;
}
