// Notifications when something waits or ends. With a push service they also come to a closed browser;
// without one, from a page in the background.

import { ApiError, at, get, post, query, remove } from "../core/api.js";
import { go, sessionAddress } from "../core/routes.js";
import { workerAddress } from "../core/trusted_types.js";
import { t } from "../core/strings.js";
import { isTrust } from "./answering.js";
import { waiting } from "./waiting.js";
import { headOf } from "./words.js";

const KEY = "crush-notifications";

/**
 * What this browser's person has chosen. With a channel, the server decides what is sent, and this is a copy.
 * @typedef {{isOn: boolean, channel: string, reason: string, notify_waiting: boolean, notify_ended: string}} Choice
 */

/** @type {Choice} */
const OFF = { isOn: false, channel: "", reason: "", notify_waiting: true, notify_ended: "own" };

/** @returns {Choice} */
export function choice() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "null");
    return {
      isOn: kept?.isOn === true,
      channel: String(kept?.channel ?? ""),
      reason: String(kept?.reason ?? ""),
      notify_waiting: kept?.notify_waiting !== false,
      notify_ended: ["none", "all"].includes(kept?.notify_ended) ? kept.notify_ended : "own",
    };
  } catch {
    return OFF; // not what this page has stored
  }
}

/** @param {Partial<Choice>} change */
function keep(change) {
  const chosen = { ...choice(), ...change };
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
  const { notify_waiting, notify_ended } = choice();
  const channel = await post("notifications/channels", { kind: "web_push", endpoint, p256dh: keys?.["p256dh"], auth: keys?.["auth"], notify_waiting, notify_ended });
  return channel.id;
}

/** @returns {Promise<Choice>} */
export async function turnOff() {
  const { channel } = choice();
  const registration = await navigator.serviceWorker.getRegistration();
  const subscription = await registration?.pushManager.getSubscription();
  await subscription?.unsubscribe();
  if (channel) await remove(at`notifications/channels/${channel}`).catch(() => {}); // it may be deleted elsewhere
  return keep(OFF);
}

/** Stores what pages of this browser show, where no channel does it. @param {Partial<Choice>} change */
export const choose = (change) => keep(change);

/** Takes over the state of this browser's channel; null: it was deleted. @param {any} channel */
export function noteChannel(channel) {
  if (channel === null) keep({ channel: "", reason: t("notify.channel_gone") });
  else if (channel.is_enabled) keep({ notify_waiting: channel.notify_waiting, notify_ended: channel.notify_ended });
  else keep({ notify_waiting: false, notify_ended: "none" });
}

/** The channel may have been changed or deleted in another browser. */
async function readChannel() {
  const { isOn, channel } = choice();
  if (!isOn || !channel) return;
  try {
    noteChannel(await get(at`notifications/channels/${channel}`));
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) noteChannel(null);
  }
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
  if (before === null || !document.hidden || !isActive() || !choice().notify_waiting) return;
  for (const item of waiting.items) {
    if (before.has(item.id)) continue;
    const { title } = headOf(item);
    const name = item.kind === "approval" ? "approval" : "questions";
    const address = isTrust(item) ? "/inbox" : `${sessionAddress(item.workspaceId, item.data["session_id"])}?${name}=${encodeURIComponent(item.id)}`;
    await show(t("notify.waits", { title }), item.data["path"] ?? "", item.id, address);
  }
}

/** The place in the server's list of ends; null while the page is looked at. @type {number | null} */
let cursor = null;
/** The keys of runs whose ends are known. @type {Set<number>} */
const ended = new Set();
const PAUSE_MS = 10_000;
/** After this time the next request is sent, whatever became of the one before. */
const LONGEST_MS = 2 * PAUSE_MS;
let busyUntil = 0;

/** Shows what has ended while nobody looked at this page. A push service shows it by itself. */
async function showEnded() {
  const { channel, notify_ended: ends } = choice();
  if (!document.hidden || !isActive() || channel || ends === "none") {
    cursor = null;
    ended.clear();
    return;
  }
  if (performance.now() < busyUntil) return;
  busyUntil = performance.now() + LONGEST_MS;
  try {
    const isFirst = cursor === null;
    const found = await get(`notifications/ends${query({ ends, cursor })}`, { signal: AbortSignal.timeout(LONGEST_MS) });
    if (!document.hidden) return;
    for (const item of [...found.items].reverse()) {
      if (ended.has(item.run_key)) continue;
      // What had ended before the page was hidden was there to be seen.
      if (!isFirst) await show(item.title, item.body, item.session_id, item.url);
      ended.add(item.run_key);
    }
    cursor = found.cursor;
  } catch {
    // The server cannot be reached, or the browser shows nothing now. The next request has the same cursor.
  } finally {
    busyUntil = 0;
  }
}

/** Closes the notifications of the page that a person now looks at. */
async function closeSeen() {
  if (document.hidden || !isPossible()) return;
  const registration = await navigator.serviceWorker.getRegistration();
  for (const each of (await registration?.getNotifications()) ?? []) {
    const address = new URL(String(each.data?.address ?? "/"), location.href);
    if (address.pathname === location.pathname && !address.search) each.close();
  }
}

/** Follows what waits and what ends, and opens what a notification names. */
export function watchNotifications() {
  waiting.isNeededHidden = () => isActive() && choice().notify_waiting;
  waiting.subscribe(() => void showWaiting());
  setInterval(() => void showEnded(), PAUSE_MS);
  document.addEventListener("visibilitychange", () => {
    void showEnded();
    void closeSeen();
  });
  navigator.serviceWorker?.addEventListener("message", (event) => {
    const address = event.data?.open;
    if (typeof address === "string" && address.startsWith("/") && !address.startsWith("//")) go(address);
  });
  void readChannel();
}
