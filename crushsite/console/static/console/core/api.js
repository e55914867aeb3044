// Requests to the REST interface. The browser's session cookie says who sends them.

/** The server's refusal: a sentence for people, and a code for programs. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 if the server did not answer
   * @param {{code?: string, detail?: string, message?: string, errors?: {field: string, message: string}[]}} problem
   * @param {number} [retrySeconds]
   */
  constructor(status, problem, retrySeconds = 0) {
    const fields = (problem.errors ?? []).map((each) => `${each.field}: ${each.message}`);
    super([problem.detail ?? problem.message ?? `HTTP ${status}`, ...fields].join(" "));
    this.status = status;
    this.code = problem.code ?? "";
    this.errors = problem.errors ?? [];
    this.retrySeconds = retrySeconds;
  }
}

/** @type {Map<string, {etag: string, data: any}>} */
const known = new Map();
const MOST_KNOWN = 100;

/**
 * @param {string} method
 * @param {string} path below `/api/`, with its query
 * @param {unknown} [body]
 * @param {{signal?: AbortSignal, key?: string}} [options] `key`: a request sent again with it happens once
 * @returns {Promise<any>}
 */
export async function request(method, path, body, { signal, key } = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key !== undefined) headers["Idempotency-Key"] = key;
  const kept = method === "GET" ? known.get(path) : undefined;
  if (kept) headers["If-None-Match"] = kept.etag;
  const init = { method, headers, signal: signal ?? null, body: body === undefined ? null : JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(`/api/${path}`, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { code: "unreachable", detail: "The server cannot be reached." });
  }
  if (answer.status === 304 && kept) return kept.data;
  if (answer.status === 401) document.dispatchEvent(new Event("signed-out"));
  const text = await answer.text();
  const data = parsed(text);
  if (!answer.ok) {
    const retry = Number(answer.headers.get("Retry-After")) || 0;
    throw new ApiError(answer.status, typeof data === "object" && data !== null ? data : {}, retry);
  }
  const etag = answer.headers.get("ETag");
  if (method === "GET" && etag) keep(path, etag, data);
  return data;
}

/** @param {string} text */
function parsed(text) {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return { detail: text.slice(0, 300) };
  }
}

/** @param {string} path @param {string} etag @param {any} data */
function keep(path, etag, data) {
  known.delete(path);
  known.set(path, { etag, data });
  const oldest = known.keys().next().value;
  if (known.size > MOST_KNOWN && oldest !== undefined) known.delete(oldest);
}

/** @param {string} path @param {{signal?: AbortSignal}} [options] */
export const get = (path, options) => request("GET", path, undefined, options);

/** @param {string} path @param {unknown} [body] @param {{key?: string}} [options] */
export const post = (path, body = {}, options = {}) =>
  request("POST", path, body, { key: crypto.randomUUID(), ...options });

/** @param {string} path @param {unknown} body */
export const put = (path, body) => request("PUT", path, body);

/** @param {string} path @param {unknown} body */
export const patch = (path, body) => request("PATCH", path, body);

/** @param {string} path */
export const remove = (path) => request("DELETE", path);

/**
 * A path below `/api/` whose values are encoded: ``at`workspaces/${id}/runs` ``.
 * @param {TemplateStringsArray} parts
 * @param {...(string | number)} values
 */
export function at(parts, ...values) {
  return parts.reduce((path, part, index) => path + encodeURIComponent(String(values[index - 1])) + part);
}

/** @param {Record<string, string | number | boolean | undefined | null>} values */
export function query(values) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== null && value !== "") found.set(name, String(value));
  }
  const text = found.toString();
  return text && `?${text}`;
}

/**
 * Yields the items of all pages of a list.
 * @param {string} path
 * @returns {AsyncGenerator<any>}
 */
export async function* everything(path) {
  let cursor = null;
  do {
    const page = await get(path + (cursor === null ? "" : `${path.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(cursor)}`));
    yield* page.items;
    cursor = page.next;
  } while (cursor !== null);
}

/** The items of all pages of a list. @param {string} path @returns {Promise<any[]>} */
export async function collect(path) {
  const items = [];
  for await (const each of everything(path)) items.push(each);
  return items;
}
