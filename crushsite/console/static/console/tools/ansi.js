// The output of a command as nodes. Colours become classes, so that both themes can show them; no
// text of the output is ever read as HTML.

import { AnsiUp } from "../vendor/ansi_up.js";
import { visible } from "../text/visible.js";

/** @typedef {{rgb: number[], class_name: string}} Colour */
/** @typedef {{text: string, bold: boolean, faint: boolean, italic: boolean, underline: boolean, fg: Colour | null, bg: Colour | null}} Piece */

/** Red, green, blue of the colours that have a class. @type {[string, number, number, number][]} */
const NAMED = [
  ["black", 60, 60, 60],
  ["red", 205, 60, 60],
  ["green", 40, 180, 60],
  ["yellow", 205, 180, 40],
  ["blue", 60, 100, 230],
  ["magenta", 190, 60, 190],
  ["cyan", 40, 180, 190],
  ["white", 210, 210, 210],
];

/** The library reads the escape sequences; here its pieces are collected instead of its HTML. */
// @ts-ignore: it declares as private what is replaced here
class Pieces extends AnsiUp {
  constructor() {
    super();
    /** @type {Piece[]} */
    this.pieces = [];
  }

  /** @param {Piece} piece */
  transform_to_html(piece) {
    if (piece.text) this.pieces.push({ ...piece });
    return "";
  }

  /** @param {{text: string}} link its address is the program's, so only its text is shown */
  process_hyperlink(link) {
    this.pieces.push({ text: link.text, bold: false, faint: false, italic: false, underline: true, fg: null, bg: null });
    return "";
  }
}

/**
 * @param {string} output
 * @returns {DocumentFragment}
 */
export function ansiNodes(output) {
  const nodes = document.createDocumentFragment();
  const reader = new Pieces();
  reader.ansi_to_html(overwritten(output));
  for (const piece of reader.pieces) {
    const classes = classesOf(piece);
    const text = visible(piece.text);
    if (classes.length === 0) {
      nodes.append(text);
      continue;
    }
    const span = document.createElement("span");
    span.className = classes.join(" ");
    span.textContent = text;
    nodes.append(span);
  }
  nodes.normalize();
  return nodes;
}

/** Each line as a terminal leaves it after carriage returns: progress bars write over themselves. @param {string} output */
export const overwritten = (output) => {
  const text = output.replace(/\r+\n/g, "\n");
  if (!text.includes("\r")) return text;
  return text
    .split("\n")
    .map((line) => line.replace(/\r+$/, "").split("\r").pop() ?? "")
    .join("\n");
};

/** @param {Piece} piece */
function classesOf(piece) {
  const classes = [];
  if (piece.bold) classes.push("ansi-bold");
  if (piece.faint) classes.push("ansi-faint");
  if (piece.italic) classes.push("ansi-italic");
  if (piece.underline) classes.push("ansi-underline");
  // Only one of the two, because a program's own pair may be unreadable in the other theme.
  if (piece.bg) classes.push(`ansi-${nameOf(piece.bg)}-bg`);
  else if (piece.fg) classes.push(`ansi-${nameOf(piece.fg)}-fg`);
  return classes;
}

/** @param {Colour} colour */
function nameOf(colour) {
  const known = /^ansi-(?:bright-)?(\w+)$/.exec(colour.class_name)?.[1];
  if (known) return known;
  const [red = 0, green = 0, blue = 0] = colour.rgb;
  /** @param {[string, number, number, number]} named */
  const distance = ([, r, g, b]) => (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
  return NAMED.reduce((best, each) => (distance(each) < distance(best) ? each : best))[0];
}
