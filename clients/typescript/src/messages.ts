// Open messages: text is placed by its offset, so that each character comes once however often the
// connection ends. Offsets count Unicode code points, which is not what `length` of a string counts.

import type { DeltaItem, Message } from "./events.ts";

export type PartKind = "text" | "reasoning" | "tool_call";
export type ToolCallHeader = { id: string; name: string };

/** Text that was added to a part. */
export type Piece = { part: number; offset: number; text: string; isFirst: boolean };

type Part = Message["parts"][number];
type OpenPart = { type: string; data: Record<string, unknown>; text: string; length: number };

const TEXT_FIELDS: Record<string, string> = { text: "text", reasoning: "thinking", tool_call: "input" };

/** The number of code points: a pair of surrogates is one. */
export function codePoints(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    if ((text.charCodeAt(at) & 0xfc00) !== 0xdc00) count++;
  }
  return count;
}

function skip(text: string, count: number): string {
  return count === 0 ? text : Array.from(text).slice(count).join("");
}

function opened(part: Part): OpenPart {
  const field = TEXT_FIELDS[part.type];
  const { [field ?? ""]: text, ...data } = part.data as Record<string, unknown>;
  const known = typeof text === "string" ? text : "";
  return { type: part.type, data, text: known, length: codePoints(known) };
}

export class OpenMessage {
  readonly number: number;
  readonly head: Message;
  readonly parts: OpenPart[];

  constructor(number: number, message: Message) {
    this.number = number;
    this.head = message;
    this.parts = message.parts.map(opened);
  }

  /** Adds the text of a delta. `null`: text before it is missing, or is not what is known. */
  add([, index, offset, text, header]: DeltaItem): Piece | null {
    const isFirst = index === this.parts.length && offset === 0 && header !== undefined;
    if (isFirst) this.parts.push(begun(header));
    const part = this.parts[index];
    if (part === undefined || part.length < offset || !(part.type in TEXT_FIELDS)) return null;
    const known = part.length - offset;
    if (known > 0) {
      const repeated = Array.from(text).slice(0, known).join("");
      if (!skip(part.text, offset).startsWith(repeated)) return null;
    }
    return this.append(index, skip(text, known), isFirst);
  }

  /** Adds what another state of the message has more. `null`: it contradicts this one. */
  extend(parts: Message["parts"]): Piece[] | null {
    const others = parts.map(opened);
    for (const [index, other] of others.entries()) {
      const mine = this.parts[index];
      if (mine === undefined) continue;
      const agrees = mine.text.startsWith(other.text) || other.text.startsWith(mine.text);
      if (mine.type !== other.type || !agrees) return null;
    }
    return others.flatMap((other, index) => {
      const isFirst = index === this.parts.length;
      if (isFirst) this.parts.push({ ...other, text: "", length: 0 });
      const part = this.parts[index] as OpenPart;
      part.data = other.data;
      const piece = this.append(index, skip(other.text, part.length), isFirst);
      return piece.text || (isFirst && other.type in TEXT_FIELDS) ? [piece] : [];
    });
  }

  /** The complete message, whose parts may have a `length` instead of known text. */
  complete(message: Message): Message | null {
    const parts: Part[] = [];
    for (const [index, part] of message.parts.entries()) {
      const { length, ...rest } = part.data as Record<string, unknown>;
      const mine = this.parts[index];
      if (length !== undefined && mine?.length !== length) return null;
      const data = length === undefined ? rest : { ...rest, [TEXT_FIELDS[part.type] ?? ""]: mine?.text };
      parts.push({ type: part.type, data } as Part);
    }
    return { ...message, parts };
  }

  toMessage(): Message {
    const parts = this.parts.map(({ type, data, text }) => {
      const field = TEXT_FIELDS[type];
      return { type, data: field ? { ...data, [field]: text } : data } as Part;
    });
    return { ...this.head, parts };
  }

  private append(index: number, text: string, isFirst: boolean): Piece {
    const part = this.parts[index] as OpenPart;
    const piece = { part: index, offset: part.length, text, isFirst };
    part.text += text;
    part.length += codePoints(text);
    return piece;
  }
}

function begun(header: NonNullable<DeltaItem[4]>): OpenPart {
  if (typeof header === "string") return { type: header, data: {}, text: "", length: 0 };
  return { type: "tool_call", data: { id: header.id, name: header.name }, text: "", length: 0 };
}
