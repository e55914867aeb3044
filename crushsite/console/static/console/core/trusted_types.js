// The console's one Trusted Types policy: what may become HTML or the address of a script.

const WORKER = "/service-worker.js";

/** @type {any} */
const types = /** @type {any} */ (globalThis).trustedTypes;

/** `createHTML` is for `core/sanitize.js`, which cleans what it gets, and for `decoded`. */
export const policy = types?.createPolicy("console", {
  /** @param {string} text */
  createHTML: (text) => text,
  /** @param {string} address */
  createScriptURL: (address) => {
    if (address !== WORKER) throw new TypeError(`not a script of the console: ${address}`);
    return address;
  },
});

/** The address of the service worker, as the policy allows it. @returns {string} */
export const workerAddress = () => policy?.createScriptURL(WORKER) ?? WORKER;

const REFERENCE = /&(?:#\d{1,7}|#x[\da-f]{1,6}|\w{1,40});/gi;
const MOST_KNOWN = 500;

/** @type {Map<string, string>} */
const characters = new Map();

/** What a reference like `&mdash;` stands for, which browsers know. It has no room for an element. @param {string} reference */
function character(reference) {
  let found = characters.get(reference);
  if (found === undefined) {
    const page = new DOMParser().parseFromString(policy?.createHTML(reference) ?? reference, "text/html");
    found = page.body.textContent ?? reference;
    if (characters.size < MOST_KNOWN) characters.set(reference, found);
  }
  return found;
}

/** The text with its character references decoded. @param {string} text */
export const decoded = (text) => (text.includes("&") ? text.replace(REFERENCE, character) : text);
