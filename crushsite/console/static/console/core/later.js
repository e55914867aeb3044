// Modules that load when something of theirs is first shown.

const RETRY_MILLISECONDS = 2000;

/**
 * Returns a function that gives the loaded module, or null: it then begins to load, and the component
 * that asked is rendered again. While the server is away this is tried again.
 * @template T @param {() => Promise<T>} load
 * @returns {(host: PageElement) => T | null}
 */
export function later(load) {
  /** @type {T | null} */
  let module = null;
  /** @type {Set<PageElement>} */
  const hosts = new Set();
  let isLoading = false;

  async function begin() {
    isLoading = true;
    try {
      module = await load();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MILLISECONDS));
    }
    isLoading = false;
    const waiting = [...hosts];
    hosts.clear();
    for (const host of waiting) host.requestUpdate();
  }

  return (host) => {
    if (module !== null) return module;
    hosts.add(host);
    if (!isLoading) void begin();
    return null;
  };
}
