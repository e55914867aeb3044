// A message while it is written. Text is placed by its offset, so each character comes once however
// often the connection ends. Offsets count code points, which `length` of a string does not.

/** @typedef {"new" | "known" | "contradiction" | "gap"} Fit */

/** @type {Record<string, string>} */
const TEXT_FIELDS = { text: "text", reasoning: "thinking", tool_call: "input" };

/** @param {string} text */
export function codePoints(text) {
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    if ((text.charCodeAt(at) & 0xfc00) !== 0xdc00) count++;
  }
  return count;
}

/** The text without its first code points. @param {string} text @param {number} count */
function skip(text, count) {
  let at = 0;
  for (; count > 0 && at < text.length; count--) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return text.slice(at);
}

/** @param {MessagePart} part @returns {OpenPart} */
function opened(part) {
  const field = TEXT_FIELDS[part.type];
  if (field === undefined) return { type: part.type, data: part.data, text: "", length: 0 };
  const { [field]: text = "", ...data } = /** @type {Record<string, any>} */ (part.data);
  return { type: part.type, data, text, length: codePoints(text) };
}

/** @param {string | CallHeader} header @returns {OpenPart} */
function begun(header) {
  if (typeof header === "string") return { type: header, data: header === "reasoning" ? { signature: "" } : {}, text: "", length: 0 };
  return { type: "tool_call", data: { id: header.id, name: header.name }, text: "", length: 0 };
}

/** @param {Message} message */
export const lacksText = (message) => (message.parts ?? []).some((part) => "length" in part.data);

export class OpenMessage {
  /** @param {number} number of the event that started it @param {Message} message */
  constructor(number, message) {
    this.number = number;
    this.head = message;
    this.parts = (message.parts ?? []).map(opened);
  }

  get id() {
    return this.head.id;
  }

  get isOpen() {
    return this.parts.every((part) => part.type !== "finish");
  }

  /**
   * Adds the text of a delta.
   * @param {number} index @param {number} offset @param {string} text @param {string | CallHeader} [header]
   * @returns {Fit}
   */
  add(index, offset, text, header) {
    if (index === this.parts.length && offset === 0 && header !== undefined) this.parts.push(begun(header));
    const part = this.parts[index];
    if (part === undefined || part.length < offset || !(part.type in TEXT_FIELDS)) return "gap";
    const known = part.length - offset;
    if (known === 0) {
      part.text += text;
      part.length += codePoints(text);
      return "new";
    }
    const here = skip(part.text, offset);
    if (here.startsWith(text)) return "known";
    const fresh = skip(text, known);
    if (text.startsWith(here)) {
      part.text += fresh;
      part.length += codePoints(fresh);
      return "new";
    }
    part.text = part.text.slice(0, part.text.length - here.length) + text;
    part.length = codePoints(part.text);
    return "contradiction";
  }

  /**
   * Takes another state of the message. Text that this one has more is kept where the two agree: an
   * older state may come after newer text.
   * @param {Message} message
   */
  extend(message) {
    const others = (message.parts ?? []).map(opened);
    const agrees = this.parts.every((mine, index) => {
      const other = others[index];
      return other === undefined || (mine.type === other.type && (mine.text.startsWith(other.text) || other.text.startsWith(mine.text)));
    });
    if (!agrees) {
      this.parts = others;
      return;
    }
    others.forEach((other, index) => {
      const mine = this.parts[index];
      if (mine === undefined || other.length > mine.length) this.parts[index] = other;
      else mine.data = other.data;
    });
  }

  /**
   * The complete message, where parts may have a `length` in place of known text.
   * @param {Message} message
   * @returns {Message | null} null: the known text has another length
   */
  completed(message) {
    const parts = [];
    for (const [index, part] of message.parts.entries()) {
      const { length, ...rest } = /** @type {Record<string, any>} */ (part.data);
      if (length === undefined) {
        parts.push(part);
        continue;
      }
      const mine = this.parts[index];
      if (mine === undefined || mine.length !== length) return null;
      parts.push({ type: part.type, data: { ...rest, [TEXT_FIELDS[part.type] ?? ""]: mine.text } });
    }
    return { ...message, parts: /** @type {MessagePart[]} */ (parts) };
  }

  /** The message with its text so far. @returns {Message} */
  toMessage() {
    const parts = this.parts.map(({ type, data, text }) => {
      const field = TEXT_FIELDS[type];
      return { type, data: field === undefined ? data : { ...data, [field]: text } };
    });
    return { ...this.head, parts: /** @type {MessagePart[]} */ (parts) };
  }
}
