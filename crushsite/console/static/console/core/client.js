// This tab as a client of the server: a workspace stays open while a tab uses it.

const KEY = "crush-client-id";

/** The tab's id. It survives a reload, and a tab that was duplicated gets one of its own. */
export function clientId() {
  return ID;
}

const ID = (() => {
  const entry = /** @type {PerformanceNavigationTiming | undefined} */ (performance.getEntriesByType("navigation")[0]);
  const kept = entry?.type === "reload" ? sessionStorage.getItem(KEY) : null;
  const id = kept ?? crypto.randomUUID();
  sessionStorage.setItem(KEY, id);
  return id;
})();
