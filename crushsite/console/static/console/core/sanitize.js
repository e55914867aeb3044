// The only place that turns HTML into nodes: what the highlighter of code writes. It is made from what a
// model, a tool or a file wrote, so it passes DOMPurify. Markdown needs no HTML (text/markdown_nodes.js).

import DOMPurify from "../vendor/dompurify.js";
import { policy } from "./trusted_types.js";

const OPTIONS = {
  ALLOWED_TAGS: ["span"],
  ALLOWED_ATTR: ["class"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
  TRUSTED_TYPES_POLICY: policy,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  // Only the classes of our own highlighting, so that text cannot take the looks of a button or a card.
  const classes = (node.getAttribute("class") ?? "").split(/\s+/).filter((name) => /^(?:hljs|language)[\w-]*$/.test(name) || /^[a-z]+_$/.test(name));
  if (classes.length > 0) node.setAttribute("class", classes.join(" "));
  else node.removeAttribute("class");
});

/**
 * @param {string} unsafe
 * @returns {DocumentFragment}
 */
export function sanitize(unsafe) {
  return /** @type {any} */ (DOMPurify.sanitize(unsafe, /** @type {any} */ (OPTIONS)));
}
