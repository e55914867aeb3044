// The addresses of the console. A page is what its address names: it can be reloaded and sent to others.

/**
 * @typedef {{page: string, workspace?: string, session?: string, section?: string}} Place
 */

/** @type {[RegExp, (match: RegExpMatchArray) => Place][]} */
const PATTERNS = [
  [/^\/$/, () => ({ page: "board" })],
  [/^\/inbox\/?$/, () => ({ page: "inbox" })],
  [/^\/search\/?$/, () => ({ page: "search" })],
  [/^\/usage\/?$/, () => ({ page: "usage" })],
  [/^\/settings(?:\/([\w-]+))?\/?$/, (match) => ({ page: "settings", section: match[1] ?? "" })],
  [/^\/w\/([^/]+)\/?$/, (match) => ({ page: "workspace", workspace: part(match, 1) })],
  [
    /^\/w\/([^/]+)\/settings(?:\/([\w-]+))?\/?$/,
    (match) => ({ page: "workspace-settings", workspace: part(match, 1), section: match[2] ?? "" }),
  ],
  [/^\/w\/([^/]+)\/s\/([^/]+)\/?$/, (match) => ({ page: "session", workspace: part(match, 1), session: part(match, 2) })],
  [
    /^\/w\/([^/]+)\/s\/([^/]+)\/changes\/?$/,
    (match) => ({ page: "changes", workspace: part(match, 1), session: part(match, 2) }),
  ],
];

/** @param {RegExpMatchArray} match @param {number} index */
function part(match, index) {
  try {
    return decodeURIComponent(match[index] ?? "");
  } catch {
    return "";
  }
}

/** @param {string} path @returns {Place} */
export function placeOf(path) {
  for (const [pattern, place] of PATTERNS) {
    const match = path.match(pattern);
    if (match) return place(match);
  }
  return { page: "unknown" };
}

/** @param {string} workspace @param {string} session */
export const sessionAddress = (workspace, session) =>
  `/w/${encodeURIComponent(workspace)}/s/${encodeURIComponent(session)}`;

/** @param {string} workspace */
export const workspaceAddress = (workspace) => `/w/${encodeURIComponent(workspace)}`;

/** Goes to another page of the console. @param {string} address */
export function go(address, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** Lets links to pages of the console change the page without loading it again. */
export function followLinks() {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (placeOf(link.pathname).page === "unknown") return; // a page of the server: account, admin
    event.preventDefault();
    if (link.href !== location.href) go(link.pathname + link.search + link.hash);
  });
}
