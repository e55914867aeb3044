export type * from "./events.ts";
export type { components, operations, paths } from "./openapi.ts";
export { type Item, type LogEvent, type StreamOptions, StreamRefused, streamEvents } from "./stream.ts";
