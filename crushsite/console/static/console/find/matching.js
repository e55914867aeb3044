// Which entries of the palette match, in which order.

import uFuzzy from "../vendor/ufuzzy.js";

const KEY = "crush-palette-recent";
const MOST_RECENT = 20;
const MOST_SHOWN = 40;

/** Letters of all scripts, words in any order, and one wrong letter in a word of three or more. */
const fuzzy = new uFuzzy({
  unicode: true,
  interSplit: "[^\\p{L}\\d']+",
  intraSplit: "\\p{Ll}\\p{Lu}",
  intraBound: "\\p{L}\\d|\\d\\p{L}|\\p{Ll}\\p{Lu}",
  intraChars: "[\\p{L}\\d']",
  intraContr: "'\\p{L}{1,2}\\b",
  intraMode: 1,
  intraIns: 1,
  intraSub: 1,
  intraTrn: 1,
  intraDel: 1,
});

/** @returns {string[]} ids of entries, the one that was used last first */
export function recent() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((id) => typeof id === "string") : [];
  } catch {
    return [];
  }
}

/** @param {string} id */
export function markUsed(id) {
  const ids = [id, ...recent().filter((each) => each !== id)].slice(0, MOST_RECENT);
  localStorage.setItem(KEY, JSON.stringify(ids));
}

/**
 * The entries that match: those whose label has the text as it was typed, then similar labels, then
 * matches in the details, such as a path. Within each of these, what was used before comes first.
 * @template {{id: string, label: string, detail: string}} T
 * @param {T[]} entries
 * @param {string} text
 * @returns {T[]}
 */
export function matching(entries, text) {
  const used = new Map(recent().map((id, index) => [id, index]));
  const place = (/** @type {T} */ entry) => used.get(entry.id) ?? MOST_RECENT;
  const wanted = text.trim().toLowerCase();
  const labels = new Set(best(entries, wanted, (each) => each.label));
  const closeness = (/** @type {T} */ entry) => (entry.label.toLowerCase().includes(wanted) ? 0 : labels.has(entry) ? 1 : 2);
  return best(entries, wanted, (each) => `${each.label} ${each.detail}`)
    .sort((one, other) => closeness(one) - closeness(other) || place(one) - place(other))
    .slice(0, MOST_SHOWN);
}

/** @template T @param {T[]} entries @param {string} text @param {(entry: T) => string} textOf @returns {T[]} */
function best(entries, text, textOf) {
  if (!text) return [...entries];
  const [found, info, order] = fuzzy.search(entries.map(textOf), text, 1);
  const indexes = order && info ? order.map((each) => info.idx[each]) : (found ?? []);
  return indexes.flatMap((index) => (index === undefined ? [] : (entries[index] ?? [])));
}
