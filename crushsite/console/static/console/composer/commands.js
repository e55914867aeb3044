// The console's own commands: `/rename Another title` in the composer does what the session's menu does.

import { at, patch, post } from "../core/api.js";
import { go, sessionAddress } from "../core/routes.js";
import { t } from "../core/strings.js";
import { notify } from "../core/toasts.js";

/** @typedef {{name: string, detail: string, run: (argument: string) => unknown}} Command */

/** @param {SessionFeed} feed @param {"jsonl" | "markdown"} kind */
export const exportAddress = (feed, kind) =>
  `/api/${at`workspaces/${feed.workspaceId}/sessions/${feed.sessionId}/export?kind=${kind}`}`;

/** Adds a session with the messages up to this one, and shows it. @param {SessionFeed} feed @param {string} [messageId] */
export async function fork(feed, messageId = "") {
  const made = await post(at`workspaces/${feed.workspaceId}/sessions/${feed.sessionId}/forks`, { message_id: messageId });
  go(sessionAddress(feed.workspaceId, made.id));
}

/** @param {SessionFeed} feed @param {Record<string, unknown>} fields */
export const changeSession = (feed, fields) => patch(at`workspaces/${feed.workspaceId}/sessions/${feed.sessionId}`, fields);

/** Saves a file that the server makes. @param {string} address */
export function download(address) {
  const link = document.createElement("a");
  link.href = address;
  link.download = "";
  link.click();
}

/** @param {SessionFeed} feed @returns {Command[]} */
export function builtIn(feed) {
  return [
    {
      name: "rename",
      detail: t("command.rename"),
      run: (title) => {
        if (!title) throw new Error(t("command.rename_needs"));
        return changeSession(feed, { title });
      },
    },
    { name: "fork", detail: t("command.fork"), run: () => fork(feed) },
    { name: "changes", detail: t("command.changes"), run: () => go(`${sessionAddress(feed.workspaceId, feed.sessionId)}/changes`) },
    {
      name: "summarize",
      detail: t("command.summarize"),
      run: async () => {
        await post(at`workspaces/${feed.workspaceId}/sessions/${feed.sessionId}/summary`);
        notify(t("command.summarizing"));
      },
    },
    {
      name: "export",
      detail: t("command.export"),
      run: (kind) => download(exportAddress(feed, kind === "jsonl" ? "jsonl" : "markdown")),
    },
  ];
}

/** The command that a text is. @param {SessionFeed} feed @param {string} text */
export function commandIn(feed, text) {
  const match = /^\/([\w-]+)(?:\s+(.*))?$/s.exec(text);
  const command = match && builtIn(feed).find((each) => each.name === match[1]);
  return command ? { run: () => command.run((match[2] ?? "").trim()) } : null;
}
