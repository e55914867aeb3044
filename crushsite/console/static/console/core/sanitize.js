// The only place that turns HTML into nodes, and the console's one Trusted Types policy. All HTML is
// made from what a model, a tool or a file wrote, so it passes DOMPurify.

import DOMPurify from "../vendor/dompurify.js";
import { t } from "./strings.js";

const WORKER = "/service-worker.js";

/** @type {any} */
const types = /** @type {any} */ (globalThis).trustedTypes;
const policy = types?.createPolicy("console", {
  /** Only DOMPurify calls it, with what it is about to clean. @param {string} text */
  createHTML: (text) => text,
  /** @param {string} address */
  createScriptURL: (address) => {
    if (address !== WORKER) throw new TypeError(`not a script of the console: ${address}`);
    return address;
  },
});

/** The address of the service worker, as the policy allows it. @returns {string} */
export const workerAddress = () => policy?.createScriptURL(WORKER) ?? WORKER;

const OPTIONS = {
  ALLOWED_TAGS: [
    ..."a b blockquote br code del em h1 h2 h3 h4 h5 h6 hr i input kbd li ol p pre s span strong sub sup".split(" "),
    ..."table tbody td th thead tr ul".split(" "),
  ],
  ALLOWED_ATTR: ["align", "checked", "class", "disabled", "href", "start", "title", "type"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  // Their values are no addresses, so the rule above is not for them.
  ADD_URI_SAFE_ATTR: ["align", "start", "type"],
  ALLOW_DATA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
  TRUSTED_TYPES_POLICY: policy,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer");
  } else if (node.tagName === "INPUT") {
    // A task in a list. Nothing else may look like a field of ours.
    if (node.getAttribute("type") !== "checkbox") node.remove();
    node.setAttribute("disabled", "");
    node.setAttribute("aria-label", t(node.hasAttribute("checked") ? "text.task_done" : "text.task_open"));
  }
  // Only the classes of our own highlighting, so that text cannot take the looks of a button or a card.
  const classes = (node.getAttribute("class") ?? "").split(/\s+/).filter((name) => /^(?:hljs|language|ansi)[\w-]*$/.test(name) || /^[a-z]+_$/.test(name));
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
