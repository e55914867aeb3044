// Reads a resource again and again while its page is visible. Unchanged answers cost the server a
// hash and no body (ETag).

import { get } from "./api.js";

const PAUSE = 2000;
const LONGEST_PAUSE = 20_000;

/**
 * Reads `path` now and every two seconds; later after errors, and not while the page is hidden.
 * @param {string} path
 * @param {{value: (value: any) => void, failed: (error: Error) => void}} listener
 * @returns {{stop: () => void, now: () => Promise<void>}}
 */
export function poll(path, listener) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let isStopped = false;
  let failures = 0;

  async function read() {
    clearTimeout(timer);
    try {
      const value = await get(path);
      failures = 0;
      if (!isStopped) listener.value(value);
    } catch (error) {
      failures += 1;
      if (!isStopped) listener.failed(error instanceof Error ? error : new Error(String(error)));
    }
    clearTimeout(timer);
    if (!isStopped && !document.hidden) timer = setTimeout(read, Math.min(PAUSE * 2 ** failures, LONGEST_PAUSE));
  }

  const visible = () => {
    if (!document.hidden) void read();
  };
  document.addEventListener("visibilitychange", visible);
  addEventListener("online", visible);
  void read();
  return {
    now: read,
    stop() {
      isStopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", visible);
      removeEventListener("online", visible);
    },
  };
}
