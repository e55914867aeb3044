// What the command palette offers: sessions of all workspaces, pages, and actions.

import { at, everything, post, query } from "../core/api.js";
import { clientId } from "../core/client.js";
import { registeredKeys, shownKey, works } from "../core/keys.js";
import { go, sessionAddress, workspaceAddress } from "../core/routes.js";
import { t } from "../core/strings.js";
import { setTheme, theme } from "../core/theme.js";

/**
 * @typedef {object} Entry
 * @property {string} id the same at the next visit
 * @property {string} label
 * @property {string} detail
 * @property {string} icon
 * @property {StringKey} kind
 * @property {string} [key] a shortcut that does the same
 * @property {() => unknown} run
 */

const CSRF_COOKIE = /(?:^|; )crush_csrftoken=([^;]+)/;
const LABEL_CHARS = 200;

/** @type {[string, string, StringKey][]} */
const PAGES = [
  ["/", "layout-dashboard", "nav.board"],
  ["/inbox", "inbox", "nav.inbox"],
  ["/search", "search", "nav.search"],
  ["/usage", "coins", "nav.usage"],
  ["/settings", "settings", "nav.settings"],
];

/** Pages and actions that need no request. @param {string} ownKey the palette's @returns {Entry[]} */
export function ownEntries(ownKey) {
  const pages = PAGES.map(([address, icon, label]) => page(address, icon, t(label)));
  pages.push({ ...page("/account/", "user", t("nav.account")), run: () => location.assign("/account/") });
  const themes = /** @type {const} */ (["system", "light", "dark"])
    .filter((name) => name !== theme())
    .map((name) => action(`theme:${name}`, name === "dark" ? "moon" : name === "light" ? "sun" : "monitor", t("palette.theme", { name: t(`theme.${name}`) }), () => setTheme(name)));
  return [
    ...pages,
    ...pageActions(ownKey),
    ...themes,
    action("sign-out", "log-out", t("palette.sign_out"), signOut),
  ];
}

/**
 * The help, and the page's shortcuts with a modifier. Plain letters answer cards, which the palette would hide.
 * @param {string} ownKey @returns {Entry[]}
 */
function pageActions(ownKey) {
  return registeredKeys()
    .filter((each) => each.key !== ownKey && (each.key === "?" || /^(?:mod|alt)\+/.test(each.key)))
    .map((each) => ({
      ...action(`key:${each.key}`, each.key === "?" ? "keyboard" : "command", each.label, () => each.run(new KeyboardEvent("keydown", { key: each.key }))),
      ...(works(each) ? { key: shownKey(each.key) } : {}),
    }));
}

/** Sessions of all workspaces, new ones in them, and their pages. @returns {Promise<Entry[]>} */
export async function boardEntries() {
  /** @type {Entry[]} */
  const sessions = [];
  /** @type {Entry[]} */
  const others = [];
  for await (const item of everything("board?sessions=50")) {
    const workspace = /** @type {Schemas["BoardWorkspace"]} */ (item);
    const address = workspaceAddress(workspace.id);
    others.push({ ...page(address, "folder", cut(workspace.name)), detail: cut(workspace.path), kind: "palette.workspace" });
    others.push({ ...page(`${address}/settings`, "settings", t("settings.of", { name: cut(workspace.name) })), detail: cut(workspace.path) });
    for (const each of workspace.sessions) sessions.push(session(workspace, each));
    if (workspace.can.includes("prompt") && (workspace.is_open || workspace.can.includes("open"))) {
      others.push(action(`new:${workspace.id}`, "message-square-plus", t("palette.new_session", { name: cut(workspace.name) }), () => newSession(workspace), workspace.path));
    }
  }
  return [...sessions, ...others];
}

/** @param {string} text @returns {Entry} */
export const searchEntry = (text) => action("search", "text-search", t("palette.search", { text: cut(text) }), () => go(`/search${query({ q: text })}`));

/** @param {string} address @param {string} icon @param {string} label @returns {Entry} */
const page = (address, icon, label) => ({ id: `page:${address}`, label, detail: "", icon, kind: "palette.page", run: () => go(address) });

/** @param {string} id @param {string} icon @param {string} label @param {() => unknown} run @returns {Entry} */
const action = (id, icon, label, run, detail = "") => ({ id, label, detail, icon, kind: "palette.action", run });

/** @param {Schemas["BoardWorkspace"]} workspace @param {Schemas["BoardSession"]} each @returns {Entry} */
function session(workspace, each) {
  const state = each.state === "waiting" ? t("palette.waiting") : each.state === "working" ? t("palette.working") : "";
  return {
    id: `session:${each.id}`,
    label: cut(each.title) || t("session.untitled"),
    detail: [cut(workspace.name), state].filter(Boolean).join(" · "),
    icon: each.state === "waiting" ? "hand" : "message-square",
    kind: "palette.session",
    run: () => go(sessionAddress(workspace.id, each.id)),
  };
}

/** @param {string} text */
const cut = (text) => [...text.replace(/\s+/g, " ").trim()].slice(0, LABEL_CHARS).join("");

/** @param {Schemas["BoardWorkspace"]} workspace */
async function newSession(workspace) {
  let { id } = workspace;
  if (!workspace.is_open) ({ id } = await post("workspaces", { path: workspace.path, client_id: clientId() }));
  const made = await post(at`workspaces/${id}/sessions`, { title: "" });
  go(sessionAddress(id, made.id));
}

function signOut() {
  const token = CSRF_COOKIE.exec(document.cookie)?.[1];
  if (!token) {
    location.assign("/account/"); // its button has a token
    return;
  }
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: "/sign-out/", hidden: true });
  const field = document.createElement("input");
  Object.assign(field, { type: "hidden", name: "csrfmiddlewaretoken", value: token });
  form.append(field);
  document.body.append(form);
  form.submit();
}
