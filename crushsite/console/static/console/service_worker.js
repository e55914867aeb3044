// Shows messages of the server while no page shows what they are about, and opens what they name. A
// message has no secrets: the title and the folder of what waits or has ended, and its address in the console.

const worker = /** @type {any} */ (globalThis);

worker.addEventListener("install", () => worker.skipWaiting());
worker.addEventListener("activate", (/** @type {any} */ event) => event.waitUntil(worker.clients.claim()));
worker.addEventListener("push", (/** @type {any} */ event) => event.waitUntil(show(event.data)));
worker.addEventListener("notificationclick", (/** @type {any} */ event) => {
  event.notification.close();
  event.waitUntil(open(addressOf(event.notification.data?.address)));
});

/** The page that an address names, always of this server; without one the inbox. @param {unknown} address @returns {URL} */
function addressOf(address) {
  const own = new URL("/inbox", worker.location.origin);
  try {
    const { pathname, search } = new URL(String(address || "/inbox"), own);
    own.pathname = pathname;
    own.search = search;
  } catch {
    // not an address
  }
  return own;
}

/** @returns {Promise<any[]>} */
const pages = () => worker.clients.matchAll({ type: "window", includeUncontrolled: true });

/** @param {any} data */
async function show(data) {
  /** @type {Record<string, unknown>} */
  let message = {};
  try {
    message = data.json();
  } catch {
    // A message without content still says that there is something to see.
  }
  const address = addressOf(message["url"]);
  const isLookedAt = (await pages()).some((page) => page.visibilityState === "visible" && new URL(page.url).pathname === address.pathname);
  if (isLookedAt) return;
  await worker.registration.showNotification(String(message["title"] ?? "Crush"), {
    body: String(message["body"] ?? ""),
    // The same tag as in the pages' own notifications: the newer one replaces the older one.
    tag: String(message["request_id"] || message["session_id"] || ""),
    data: { address: address.href },
  });
}

/** @param {URL} address */
async function open(address) {
  const all = await pages();
  const page = all.find((each) => new URL(each.url).pathname === address.pathname) ?? all[0];
  if (page === undefined) {
    await worker.clients.openWindow(address.href);
    return;
  }
  await page.focus().catch(() => {}); // the browser decides whether a page may come to the front
  page.postMessage({ open: address.pathname + address.search });
}
