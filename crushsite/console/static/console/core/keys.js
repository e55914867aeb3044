// Keyboard shortcuts. A page registers its own; fields keep their keys for typing.

/** @typedef {{key: string, label: string, run: (event: KeyboardEvent) => void, inFields?: boolean}} Shortcut */

/** @type {Set<Shortcut[]>} */
const registered = new Set();

const LETTERS_KEY = "crush-letter-keys";
/** @type {Set<() => void>} */
const letterListeners = new Set();

const IS_MAC = /mac|iphone|ipad/i.test(navigator.platform);

/** The name of a pressed key: `mod+k`, `shift+?`, `Escape`. @param {KeyboardEvent} event */
export function nameOfKey(event) {
  const parts = [];
  if (IS_MAC ? event.metaKey : event.ctrlKey) parts.push("mod");
  if (event.altKey) parts.push("alt");
  if (event.shiftKey && event.key.length > 1) parts.push("shift");
  parts.push(event.key.length === 1 ? event.key.toLowerCase() : event.key);
  return parts.join("+");
}

/** The key as it is shown. @param {string} name */
export const shownKey = (name) => name.replace("mod", IS_MAC ? "⌘" : "Ctrl").replace("Enter", "↵").replace(/\b[a-z]$/, (letter) => letter.toUpperCase());

/** Registers shortcuts until the returned function is called; later ones come first. @param {Shortcut[]} shortcuts */
export function registerKeys(shortcuts) {
  registered.add(shortcuts);
  return () => registered.delete(shortcuts);
}

/** Shortcuts of one character without a modifier can be turned off: speech input presses them by accident. */
export const hasLetterKeys = () => localStorage.getItem(LETTERS_KEY) !== "off";

/** @param {boolean} isOn */
export function setLetterKeys(isOn) {
  if (isOn) localStorage.removeItem(LETTERS_KEY);
  else localStorage.setItem(LETTERS_KEY, "off");
  for (const listener of [...letterListeners]) listener();
}

/** Calls the listener when letters are turned on or off, in this tab or in another. @param {() => void} listener */
export function watchLetterKeys(listener) {
  letterListeners.add(listener);
  return () => letterListeners.delete(listener);
}

/** @param {Shortcut} shortcut */
export const works = ({ key }) => key.length > 1 || hasLetterKeys();

/** All shortcuts of the page, also those that are turned off. @returns {Shortcut[]} */
export const registeredKeys = () => [...registered].flat();

/** All shortcuts that work now. @returns {Shortcut[]} */
export const knownKeys = () => registeredKeys().filter(works);

/** @param {EventTarget | null} target */
function isField(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

export function watchKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const name = nameOfKey(event);
    for (const shortcut of [...registered].reverse().flat()) {
      if (shortcut.key !== name || !works(shortcut) || (isField(event.target) && !shortcut.inFields)) continue;
      event.preventDefault();
      shortcut.run(event);
      return;
    }
  });
  addEventListener("storage", (event) => {
    if (event.key === LETTERS_KEY) for (const listener of [...letterListeners]) listener();
  });
}
