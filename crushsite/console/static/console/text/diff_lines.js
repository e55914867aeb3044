// A diff in the unified format as lines with their numbers, and rows for showing two sides. It needs
// no browser.

/** @typedef {{kind: "same" | "added" | "removed" | "note", text: string, old: number, new: number, index: number}} DiffLine */
/** @typedef {{header: string, lines: DiffLine[]}} Hunk */
/** @typedef {{left: DiffLine | null, right: DiffLine | null}} DiffPair */

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$/;
const FILE = /^(?:--- |\+\+\+ |diff |index |new file|deleted file|old mode|new mode|similarity|rename |Binary )/;

/**
 * The hunks of one file's diff. Text that is no diff is one hunk of unchanged lines.
 * @param {string} diff
 * @returns {Hunk[]}
 */
export function hunksOf(diff) {
  /** @type {Hunk[]} */
  const hunks = [];
  let left = { old: 0, new: 0 }; // lines that the hunk still has
  let at = { old: 1, new: 1 };
  let index = 0;
  const lines = diff.split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const line of lines) {
    const isInside = left.old > 0 || left.new > 0;
    const match = isInside ? null : HUNK.exec(line);
    if (match) {
      at = { old: Number(match[1]), new: Number(match[3]) };
      left = { old: Number(match[2] ?? 1), new: Number(match[4] ?? 1) };
      hunks.push({ header: (match[5] ?? "").trim(), lines: [] });
      continue;
    }
    if (!isInside && FILE.test(line)) continue;
    if (hunks.length === 0) hunks.push({ header: "", lines: [] });
    const kind = kindOf(line);
    const hasMark = kind !== "same" || line.startsWith(" ");
    const made = { kind, text: (hasMark ? line.slice(1) : line).replace(/\r$/, ""), old: 0, new: 0, index: index++ };
    if (kind === "same" || kind === "removed") {
      made.old = at.old++;
      left.old--;
    }
    if (kind === "same" || kind === "added") {
      made.new = at.new++;
      left.new--;
    }
    hunks.at(-1)?.lines.push(made);
  }
  return hunks;
}

/** @param {string} line @returns {DiffLine["kind"]} */
function kindOf(line) {
  if (line.startsWith("+")) return "added";
  if (line.startsWith("-")) return "removed";
  return line.startsWith("\\") ? "note" : "same";
}

/**
 * The lines side by side: removed lines stand beside the added ones that follow them.
 * @param {DiffLine[]} lines
 * @returns {DiffPair[]}
 */
export function pairsOf(lines) {
  /** @type {DiffPair[]} */
  const pairs = [];
  /** @type {DiffLine[]} */
  let removed = [];
  /** @type {DiffLine[]} */
  let added = [];
  const flush = () => {
    for (let row = 0; row < Math.max(removed.length, added.length); row++) {
      pairs.push({ left: removed[row] ?? null, right: added[row] ?? null });
    }
    removed = [];
    added = [];
  };
  for (const line of lines) {
    if (line.kind === "removed") {
      if (added.length > 0) flush();
      removed.push(line);
    } else if (line.kind === "added") added.push(line);
    else if (line.kind === "same") {
      flush();
      pairs.push({ left: line, right: line });
    }
  }
  flush();
  return pairs;
}

/** How many lines were added and removed. @param {Hunk[]} hunks */
export function countsOf(hunks) {
  const lines = hunks.flatMap((hunk) => hunk.lines);
  return {
    added: lines.filter((line) => line.kind === "added").length,
    removed: lines.filter((line) => line.kind === "removed").length,
  };
}
