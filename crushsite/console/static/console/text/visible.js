// Characters that change how a text looks but not what it does.

const HIDDEN = /[\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\u2060\ufeff]|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

/**
 * The text with its invisible and reordering characters spelled out: a command or a file name must
 * look like what is carried out.
 * @param {string} text
 */
export const visible = (text) => text.replace(HIDDEN, (each) => `⟨U+${each.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

/**
 * The part of a long text that is shown at first, cut at the end of a line.
 * @param {string} text @param {number} most characters @param {{fromEnd?: boolean}} [options]
 */
export function cut(text, most, { fromEnd = false } = {}) {
  if (text.length <= most) return text;
  if (fromEnd) {
    const start = text.indexOf("\n", text.length - most);
    return text.slice(start < 0 || start === text.length - 1 ? text.length - most : start + 1);
  }
  const end = text.lastIndexOf("\n", most);
  return text.slice(0, end < most / 2 ? most : end);
}
