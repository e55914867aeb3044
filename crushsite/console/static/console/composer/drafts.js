// Prompts that were not sent yet, one for each session. They survive a reload, and tabs share them.

const PREFIX = "crush-draft ";

/** @param {string} sessionId */
export const draftOf = (sessionId) => localStorage.getItem(PREFIX + sessionId) ?? "";

/** @param {string} sessionId @param {string} text */
export function keepDraft(sessionId, text) {
  try {
    if (text) localStorage.setItem(PREFIX + sessionId, text);
    else localStorage.removeItem(PREFIX + sessionId);
  } catch {
    // The browser's storage is full: the text stays in the field.
  }
}

/**
 * Calls back when another tab has changed the session's draft.
 * @param {string} sessionId @param {(text: string) => void} changed
 */
export function watchDraft(sessionId, changed) {
  const listener = (/** @type {StorageEvent} */ event) => {
    if (event.key === PREFIX + sessionId) changed(event.newValue ?? "");
  };
  addEventListener("storage", listener);
  return () => removeEventListener("storage", listener);
}
