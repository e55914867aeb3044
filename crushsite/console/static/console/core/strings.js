// Every text that people read, in one catalogue. Components name texts by their key.

import { ENGLISH } from "../strings/en.js";

/** @typedef {keyof typeof ENGLISH} Key */

const PLURALS = new Intl.PluralRules("en");

/**
 * The text for a key. `{name}` stands for a value; `{count|one|other}` chooses by its number.
 * @param {Key} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function t(key, values = {}) {
  return ENGLISH[key].replace(/\{(\w+)(?:\|([^|}]*)\|([^|}]*))?\}/g, (_, name, one, other) => {
    const value = values[name] ?? "";
    if (one === undefined) return String(value);
    return PLURALS.select(Number(value)) === "one" ? one : other;
  });
}
