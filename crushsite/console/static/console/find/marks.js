// The words of a search in a text. The server counts characters; strings here count UTF-16 units, of
// which an emoji has two.

/**
 * Cuts a text at its marks.
 * @param {string} text
 * @param {number[][]} marks pairs of start and end, in characters
 * @returns {{text: string, isMarked: boolean}[]}
 */
export function markedPieces(text, marks) {
  const characters = [...text];
  /** @type {{text: string, isMarked: boolean}[]} */
  const pieces = [];
  let at = 0;
  const add = (/** @type {number} */ end, /** @type {boolean} */ isMarked) => {
    if (end > at) pieces.push({ text: characters.slice(at, end).join(""), isMarked });
    at = Math.max(at, end);
  };
  for (const [start = 0, end = 0] of [...marks].sort((one, other) => (one[0] ?? 0) - (other[0] ?? 0))) {
    add(start, false);
    add(Math.min(end, characters.length), true);
  }
  add(characters.length, false);
  return pieces;
}
