// Notifications when something waits or ends. With a push service they also come to a closed browser;
// without one, from a page in the background.

import { at, get, post, remove } from "../core/api.js";
import { go, sessionAddress } from "../core/routes.js";
import { workerAddress } from "../core/sanitize.js";
import { t } from "../core/strings.js";
import { isTrust } from "./answering.js";
import { waiting } from "./waiting.js";
import { headOf } from "./words.js";

const KEY = "crush-notifications";
const ENDED = new Set(["completed", "failed", "interrupted", "over_budget"]);
const AT_WORK = new Set(["working", "waiting", "queued"]);

/** @typedef {{isOn: boolean, channel: string, reason: string}} Choice what this browser's person has chosen */

/** @returns {Choice} */
export function choice() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "null");
    if (kept?.isOn === true) return { isOn: true, channel: String(kept.channel ?? ""), reason: String(kept.reason ?? "") };
  } catch {
    // not what this page has stored
  }
  return { isOn: false, channel: "", reason: "" };
}

/** @param {Choice} chosen */
function keep(chosen) {
  localStorage.setItem(KEY, JSON.stringify(chosen));
  return chosen;
}

export const isPossible = () => "Notification" in globalThis && "serviceWorker" in navigator;

/** @returns {Promise<Choice>} */
export async function turnOn() {
  if ((await Notification.requestPermission()) !== "granted") return keep({ isOn: false, channel: "", reason: "" });
  await navigator.serviceWorker.register(workerAddress());
  try {
    return keep({ isOn: true, channel: await subscribe(), reason: "" });
  } catch (error) {
    const reason = error instanceof DOMException ? t("notify.no_push") : error instanceof Error ? error.message : "";
    return keep({ isOn: true, channel: "", reason });
  }
}

/** Subscribes to the browser's push service. @returns {Promise<string>} the channel's id */
async function subscribe() {
  const registration = await navigator.serviceWorker.ready;
  const { public_key: applicationServerKey } = await get("notifications/push-key");
  const made = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
  const { endpoint, keys } = made.toJSON();
  const channel = await post("notifications/channels", { kind: "web_push", endpoint, p256dh: keys?.["p256dh"], auth: keys?.["auth"] });
  return channel.id;
}

/** @returns {Promise<Choice>} */
export async function turnOff() {
  const { channel } = choice();
  const registration = await navigator.serviceWorker.getRegistration();
  const subscription = await registration?.pushManager.getSubscription();
  await subscription?.unsubscribe();
  if (channel) await remove(at`notifications/channels/${channel}`).catch(() => {}); // it may be deleted elsewhere
  return keep({ isOn: false, channel: "", reason: "" });
}

const isActive = () => isPossible() && Notification.permission === "granted" && choice().isOn;

/** @param {string} title @param {string} body @param {string} tag @param {string} address */
async function show(title, body, tag, address) {
  const registration = await navigator.serviceWorker.getRegistration();
  await registration?.showNotification(title, { body, tag, data: { address } });
}

/** @type {Set<string> | null} */
let known = null;

/** Shows what has begun to wait, if nobody looks at this page. */
async function showWaiting() {
  if (waiting.items === null) return;
  const before = known;
  known = new Set(waiting.items.map((each) => each.id));
  if (before === null || !document.hidden || !isActive()) return;
  for (const item of waiting.items) {
    if (before.has(item.id)) continue;
    const { title } = headOf(item);
    const name = item.kind === "approval" ? "approval" : "questions";
    const address = isTrust(item) ? "/inbox" : `${sessionAddress(item.workspaceId, item.data["session_id"])}?${name}=${encodeURIComponent(item.id)}`;
    await show(t("notify.waits", { title }), item.data["path"] ?? "", item.id, address);
  }
}

/** The states of sessions when they were last read. @type {Map<string, string>} */
let states = new Map();

/** Shows what has ended while nobody looked at this page. */
export async function showEnded() {
  if (!document.hidden || !isActive()) {
    states = new Map();
    return;
  }
  const board = await get("board").catch(() => null);
  const next = new Map();
  for (const workspace of board?.items ?? []) {
    for (const session of workspace.sessions) {
      next.set(session.id, session.state);
      if (!AT_WORK.has(states.get(session.id) ?? "") || !ENDED.has(session.state)) continue;
      const title = session.title || t("session.untitled");
      const text = t(session.state === "completed" ? "notify.ended" : "notify.failed", { title });
      await show(text, workspace.name, session.id, sessionAddress(workspace.id, session.id));
    }
  }
  if (board !== null) states = next;
}

/** Follows what waits and what ends, and opens what a notification names. */
export function watchNotifications() {
  waiting.isNeededHidden = isActive;
  waiting.subscribe(() => void showWaiting());
  setInterval(() => void showEnded(), 10_000);
  document.addEventListener("visibilitychange", () => void showEnded());
  navigator.serviceWorker?.addEventListener("message", (event) => {
    const address = event.data?.open;
    if (typeof address === "string" && address.startsWith("/") && !address.startsWith("//")) go(address);
  });
}
