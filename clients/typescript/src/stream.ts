// The stream of a workspace by server-sent events and `fetch`: it connects again by itself, at its
// cursor and in the middle of a word. Each event comes once, in order, and each character once.

import type { DeltaItem, Message, StreamItem } from "./events.ts";
import { OpenMessage, type PartKind, type Piece, type ToolCallHeader } from "./messages.ts";

/** An event of the log. Its messages are complete. */
export type LogEvent = Extract<StreamItem, { number: number }>;

export type Item =
  | { kind: "event"; event: LogEvent }
  /** Text that follows the known text of a part. */
  | {
      kind: "text";
      session: string;
      message: string;
      part: number;
      partKind: PartKind;
      offset: number;
      text: string;
      toolCall?: ToolCallHeader;
    }
  /** An open message as a whole, which replaces what is known of it. */
  | { kind: "message"; number: number; message: Message }
  | { kind: "output"; session: string; message: string; toolCall: string; text: string }
  | { kind: "live"; number: number }
  | { kind: "lost"; reason: string; retryMilliseconds: number };

export type StreamOptions = {
  /** `https://crush.example.com` */
  url: string;
  workspace: string;
  token?: string;
  /** The number of the newest event that you have; without it the stream begins now. */
  after?: number;
  /** Keeps the workspace open for this client. */
  clientId?: string;
  /** Opens the workspace again: a workspace that no client claims closes, also while the server restarts. */
  reopen?: () => Promise<unknown>;
  signal?: AbortSignal;
  fetch?: typeof fetch;
  idleMilliseconds?: number;
};

/** The server refused the stream, and would refuse it again. */
export class StreamRefused extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, problem: { code?: string; detail?: string; message?: string }) {
    super(problem.detail ?? problem.message ?? `the server answered with status ${status}`);
    this.status = status;
    this.code = problem.code ?? "";
  }
}

/** What came does not follow what came before: it is read again from the cursor. */
class Broken extends Error {}

const FIRST_PAUSE = 200;
const LONGEST_PAUSE = 5000;

/** Yields items until the signal is aborted. Throws `StreamRefused`. */
export async function* streamEvents(options: StreamOptions): AsyncGenerator<Item, void, undefined> {
  const fold = new Fold(options.after ?? null);
  let failures = 0;
  while (!options.signal?.aborted) {
    let reason = "the server ended the stream";
    try {
      for await (const raw of received(options, fold.cursor)) {
        for (const item of fold.take(raw)) {
          if (item.kind === "live") failures = 0;
          yield item;
        }
      }
    } catch (error) {
      if (error instanceof StreamRefused && !(await reopened(error, options))) throw error;
      reason = error instanceof Error ? error.message : String(error);
    }
    if (options.signal?.aborted) return;
    const pause = Math.min(FIRST_PAUSE * 2 ** failures++, LONGEST_PAUSE) * (0.5 + Math.random() / 2);
    yield { kind: "lost", reason, retryMilliseconds: pause };
    await sleep(pause, options.signal);
  }
}

async function reopened(error: StreamRefused, options: StreamOptions): Promise<boolean> {
  if (error.status !== 404 || options.reopen === undefined) return false;
  await options.reopen().catch(() => undefined); // the server may be away again: the next attempt shows it
  return true;
}

/** Yields what one connection brings: events and other items as objects, deltas as arrays. */
async function* received(options: StreamOptions, cursor: number | null): AsyncGenerator<unknown> {
  const url = new URL(`api/workspaces/${encodeURIComponent(options.workspace)}/events`, slashed(options.url));
  if (cursor !== null) url.searchParams.set("after", String(cursor));
  if (options.clientId) url.searchParams.set("client_id", options.clientId);
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (options.token) headers["Authorization"] = `Bearer ${options.token}`;
  const stop = new AbortController();
  const abort = () => stop.abort();
  options.signal?.addEventListener("abort", abort);
  // A heartbeat comes every 10 s.
  const idle = options.idleMilliseconds ?? 30_000;
  let timer = setTimeout(abort, idle);
  try {
    const answer = await (options.fetch ?? fetch)(url, { headers, signal: stop.signal, redirect: "error" });
    if (!answer.ok || answer.body === null) {
      const problem = (await answer.json().catch(() => ({}))) as { detail?: string };
      if (answer.status < 500 && answer.status !== 429) throw new StreamRefused(answer.status, problem);
      throw new Error(problem.detail ?? `the server answered with status ${answer.status}`);
    }
    let rest = "";
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      clearTimeout(timer);
      timer = setTimeout(abort, idle);
      const lines = (rest + read.value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        // The data of an event is always one line.
        if (line.startsWith("data: ")) yield* listed(JSON.parse(line.slice(6)));
      }
    }
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener("abort", abort);
    stop.abort();
  }
}

/** From what connections bring to items, across any number of connections. */
class Fold {
  cursor: number | null;
  private readonly open = new Map<number, OpenMessage>();

  constructor(cursor: number | null) {
    this.cursor = cursor;
  }

  take(raw: unknown): Item[] {
    if (Array.isArray(raw)) return this.delta(raw as DeltaItem);
    const item = raw as Exclude<StreamItem, unknown[]>;
    if ("number" in item) return this.event(item);
    switch (item.type) {
      case "message.progress":
        return this.progress(item.data.number, item.data.message);
      case "tool.output": {
        const { session_id, message_id, tool_call_id, text } = item.data;
        return [{ kind: "output", session: session_id, message: message_id, toolCall: tool_call_id, text }];
      }
      case "stream.opened":
        this.cursor ??= item.data.number;
        if (this.cursor !== item.data.number) throw new Broken("the stream opened at another event");
        return [{ kind: "live", number: item.data.number }];
      default:
        return []; // `stream.resume`: the connection ends; or an item of a newer server
    }
  }

  private event(event: LogEvent): Item[] {
    if (this.cursor !== null && event.number <= this.cursor) return [];
    if (this.cursor !== null && event.number !== this.cursor + 1) throw new Broken("an event is missing");
    let items: Item[] = [];
    switch (event.type) {
      case "message.started":
      case "message.restarted":
        this.close(event.data.message.id);
        this.open.set(event.number, new OpenMessage(event.number, event.data.message));
        break;
      case "message.finished":
      case "message.updated": {
        const [before, message] = this.closed(event.data.message);
        items = before;
        event = { ...event, data: { ...event.data, message } };
        break;
      }
      case "session.deleted":
        for (const [number, message] of this.open) {
          if (message.head.session_id === event.data.session.id) this.open.delete(number);
        }
    }
    this.cursor = event.number;
    return [...items, { kind: "event", event }];
  }

  /** What comes before the end of a message, and the complete message. */
  private closed(message: Message): [Item[], Message] {
    const known = [...this.open.values()].find((each) => each.head.id === message.id);
    const complete = (known ?? new OpenMessage(0, { ...message, parts: [] })).complete(message);
    // Read again from the log, the event has the text.
    if (complete === null) throw new Broken("a message ended with text that never came");
    if (known === undefined) return [[], complete];
    const pieces = known.extend(complete.parts);
    const lengths = new OpenMessage(0, complete).parts.map((part) => part.length);
    const isShorter = known.parts.some((part, index) => part.length !== lengths[index]);
    this.close(message.id);
    if (pieces === null || isShorter) return [[{ kind: "message", number: known.number, message: complete }], complete];
    return [pieces.map((piece) => text(known, piece)), complete];
  }

  private close(id: string): void {
    for (const [number, message] of this.open) if (message.head.id === id) this.open.delete(number);
  }

  private delta(delta: DeltaItem): Item[] {
    const message = this.open.get(delta[0]);
    const piece = message?.add(delta);
    if (message === undefined || piece === undefined || piece === null) {
      this.open.delete(delta[0]); // the next connection brings its current state
      throw new Broken("text is missing");
    }
    return piece.text || piece.isFirst ? [text(message, piece)] : [];
  }

  private progress(number: number, message: Message): Item[] {
    const known = this.open.get(number);
    const pieces = known?.extend(message.parts);
    if (known && pieces) return pieces.map((piece) => text(known, piece));
    this.close(message.id);
    this.open.set(number, new OpenMessage(number, message));
    return [{ kind: "message", number, message }];
  }
}

function text(message: OpenMessage, piece: Piece): Item {
  const part = message.parts[piece.part];
  const item: Item = {
    kind: "text",
    session: message.head.session_id,
    message: message.head.id,
    part: piece.part,
    partKind: (part?.type ?? "text") as PartKind,
    offset: piece.offset,
    text: piece.text,
  };
  if (piece.isFirst && part?.type === "tool_call") {
    item.toolCall = { id: String(part.data["id"]), name: String(part.data["name"]) };
  }
  return item;
}

function listed(item: unknown): unknown[] {
  return Array.isArray(item) ? item : [item]; // an array has deltas
}

function slashed(url: string): string {
  return url.endsWith("/") ? url : `${url}/`;
}

function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
