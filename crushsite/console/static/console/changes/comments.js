// Comments on lines of diffs: collected in this browser until they are sent as one prompt.

import { t } from "../core/strings.js";

/** @typedef {{path: string, line: number, isRemoved: boolean, code: string, text: string}} LineComment */

const PREFIX = "crush-comments ";

/** @param {string} sessionId @returns {LineComment[]} */
export function commentsOf(sessionId) {
  try {
    const found = JSON.parse(localStorage.getItem(PREFIX + sessionId) ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

/** @param {string} sessionId @param {LineComment[]} comments */
export function keepComments(sessionId, comments) {
  if (comments.length > 0) localStorage.setItem(PREFIX + sessionId, JSON.stringify(comments));
  else localStorage.removeItem(PREFIX + sessionId);
}

/** @param {string} sessionId @param {() => void} changed @returns {() => void} */
export function watchComments(sessionId, changed) {
  const listener = (/** @type {StorageEvent} */ event) => {
    if (event.key === PREFIX + sessionId) changed();
  };
  addEventListener("storage", listener);
  return () => removeEventListener("storage", listener);
}

/** @param {LineComment} comment @param {string} path @param {DiffLine} line */
export const isAt = (comment, path, line) =>
  comment.path === path && comment.isRemoved === (line.kind === "removed") && comment.line === (line.new || line.old);

/** The prompt with all comments, file by file. @param {LineComment[]} comments */
export function promptOf(comments) {
  const paths = [...new Set(comments.map((each) => each.path))];
  const files = paths.map((path) => {
    const own = comments.filter((each) => each.path === path).sort((one, other) => one.line - other.line);
    const lines = own.map((each) => {
      const place = t(each.isRemoved ? "changes.prompt_removed" : "changes.prompt_line", { line: each.line });
      return `${place}\n\n    ${each.code}\n\n${each.text}`;
    });
    return `## ${path}\n\n${lines.join("\n\n")}`;
  });
  return `${t("changes.prompt_head", { n: comments.length })}\n\n${files.join("\n\n")}\n`;
}
