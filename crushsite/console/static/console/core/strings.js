// Every text that people read, in one catalogue. Components name texts by their key.

import { ENGLISH } from "../strings/en.js";

/** @typedef {keyof typeof ENGLISH | LaterStringKey} Key */

/** @type {Record<string, string>} */
const texts = { ...ENGLISH };

/** Adds the texts of a room that loads later. @param {Record<string, Record<string, string>>} room a module of `strings/` */
export const addTexts = (room) => Object.assign(texts, ...Object.values(room));

const PLURALS = new Intl.PluralRules("en");

/**
 * The text for a key. `{name}` stands for a value; `{count|one|other}` chooses by its number.
 * @param {Key} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function t(key, values = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)(?:\|([^|}]*)\|([^|}]*))?\}/g, (_, name, one, other) => {
    const value = values[name] ?? "";
    if (one === undefined) return String(value);
    return PLURALS.select(Number(value)) === "one" ? one : other;
  });
}
