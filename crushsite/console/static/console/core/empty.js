// What a page shows where there is nothing yet: what will be here, and what to do.

import { html, nothing } from "../vendor/lit.js";
import { icon } from "./icons.js";

/**
 * @param {string} sign @param {string} title @param {string} [hint] @param {unknown} [action]
 */
export const empty = (sign, title, hint = "", action = nothing) =>
  html`<div class="empty">
    ${icon(sign)}
    <p class="empty-title">${title}</p>
    ${hint ? html`<p class="quiet">${hint}</p>` : nothing}
    ${action}
  </div>`;

/** An address at which nothing is. @param {string} title @param {string} action */
export const missing = (title, action) =>
  html`<div class="empty page-missing">
    ${icon("search")}
    <h1>${title}</h1>
    <a class="button" href="/">${action}</a>
  </div>`;
