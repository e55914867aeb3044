// The arguments of a call: JSON by a model, which may be malformed, or still being written.

/** Nested deeper than this, a value is shown as its source. */
const DEEPEST = 30;

/** What was readable before the text ended or was no JSON any more. */
class Stopped extends Error {}

/**
 * The arguments as far as they are readable.
 * @param {string} text
 * @returns {{values: Record<string, any>, isWhole: boolean}} not whole: more comes, or the rest is malformed
 */
export function readArguments(text) {
  try {
    const value = JSON.parse(text);
    return isObject(value) ? { values: value, isWhole: true } : { values: {}, isWhole: false };
  } catch {
    return { values: new Reader(text).object(), isWhole: false };
  }
}

/** @param {unknown} value @returns {value is Record<string, any>} */
export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** A named text of some arguments; empty if it is absent or of another type. @param {Record<string, any>} values @param {string} name @returns {string} */
export function textOf(values, name) {
  const value = Object.hasOwn(values, name) ? values[name] : "";
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
}

/** A named list of objects of some arguments. @param {Record<string, any>} values @param {string} name @returns {Record<string, any>[]} */
export function objectsOf(values, name) {
  const value = Object.hasOwn(values, name) ? values[name] : [];
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** Reads JSON up to where it ends or is wrong, and keeps what came before. */
class Reader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  object() {
    /** @type {Record<string, any>} */
    const found = {};
    this._space();
    if (this.text[this.at] !== "{") return found;
    try {
      this._members(found, 0);
    } catch (error) {
      if (!(error instanceof Stopped)) throw error;
    }
    return found;
  }

  /** @param {Record<string, any>} found @param {number} depth */
  _members(found, depth) {
    this.at++;
    for (;;) {
      this._space();
      if (this._take("}")) return;
      const name = this._string(() => {});
      this._space();
      if (!this._take(":")) throw new Stopped();
      this._value(depth, (value) => this._set(found, name, value));
      this._space();
      if (this._take(",")) continue;
      if (this._take("}")) return;
      throw new Stopped();
    }
  }

  /** Not by assignment: `__proto__` is a name like any other. @param {Record<string, any>} found @param {string} name @param {unknown} value */
  _set(found, name, value) {
    Object.defineProperty(found, name, { value, enumerable: true, configurable: true, writable: true });
  }

  /** @param {number} depth @param {(value: any) => void} keep called at once with what is begun */
  _value(depth, keep) {
    this._space();
    const first = this.text[this.at];
    if (first === undefined || depth > DEEPEST) throw new Stopped();
    if (first === '"') {
      keep(this._string(keep));
    } else if (first === "{") {
      const inner = {};
      keep(inner);
      this._members(inner, depth + 1);
    } else if (first === "[") {
      /** @type {any[]} */
      const inner = [];
      keep(inner);
      this._items(inner, depth + 1);
    } else {
      keep(this._word());
    }
  }

  /** @param {any[]} items @param {number} depth */
  _items(items, depth) {
    this.at++;
    for (;;) {
      this._space();
      if (this._take("]")) return;
      const index = items.length;
      this._value(depth, (value) => (items[index] = value));
      this._space();
      if (this._take(",")) continue;
      if (this._take("]")) return;
      throw new Stopped();
    }
  }

  /** A string; one that does not end goes to `keep`. @param {(part: string) => void} keep @returns {string} */
  _string(keep) {
    if (!this._take('"')) throw new Stopped();
    const start = this.at;
    for (; this.at < this.text.length; this.at++) {
      const character = this.text[this.at];
      if (character === "\\") this.at++;
      else if (character === '"') return unescaped(this.text.slice(start, this.at++));
    }
    keep(unescaped(this.text.slice(start)));
    throw new Stopped();
  }

  _word() {
    const word = /[-+\w.]*/y;
    word.lastIndex = this.at;
    const found = word.exec(this.text)?.[0] ?? "";
    this.at += found.length;
    if (this.at === this.text.length) throw new Stopped(); // it may go on
    try {
      return JSON.parse(found);
    } catch {
      throw new Stopped();
    }
  }

  /** @param {string} character */
  _take(character) {
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  _space() {
    while (/\s/.test(this.text[this.at] ?? "")) this.at++;
  }
}

/** @type {Record<string, string>} */
const ESCAPES = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f" };

/** The text of a JSON string that may end within an escape, or contain wrong ones. @param {string} source */
const unescaped = (source) =>
  source.replace(/\\(?:u([\da-fA-F]{4})|u[\da-fA-F]{0,3}$|([^u])|$)/g, (_, code, letter) => {
    if (code) return String.fromCharCode(parseInt(code, 16));
    return letter === undefined ? "" : (ESCAPES[letter] ?? letter);
  });
