// What requests and their answers are in words.

import { moment } from "../core/format.js";
import { t } from "../core/strings.js";

/** @type {Record<string, {icon: string, title: StringKey}>} */
const ACTS = {
  bash: { icon: "terminal", title: "act.bash" },
  write: { icon: "file-plus", title: "act.write" },
  edit: { icon: "file-pen", title: "act.edit" },
  multiedit: { icon: "file-pen", title: "act.edit" },
  lsp_rename: { icon: "file-pen", title: "act.rename" },
  lsp_replace_symbol: { icon: "file-pen", title: "act.edit" },
  view: { icon: "eye", title: "act.view" },
  ls: { icon: "folder", title: "act.list" },
  glob: { icon: "folder", title: "act.list" },
  grep: { icon: "text-search", title: "act.grep" },
  fetch: { icon: "globe", title: "act.fetch" },
  agentic_fetch: { icon: "globe", title: "act.agentic_fetch" },
  download: { icon: "download", title: "act.download" },
  sourcegraph: { icon: "search", title: "act.sourcegraph" },
  list_mcp_resources: { icon: "plug", title: "act.mcp_list" },
  read_mcp_resource: { icon: "plug", title: "act.mcp_read" },
  trust: { icon: "shield-question-mark", title: "act.trust" },
};

/**
 * What the tool would do, and what it would do it with, in one line each.
 * @param {Record<string, any>} request
 * @returns {{icon: string, title: string, subject: string}}
 */
export function actOf(request) {
  const known = Object.hasOwn(ACTS, request["tool_name"]) ? ACTS[request["tool_name"]] : undefined;
  const params = request["params"] ?? {};
  const subject = firstText(params, ["command", "file_path", "url", "pattern", "path", "query", "uri"]) || request["path"] || "";
  if (known) return { icon: known.icon, title: t(known.title), subject };
  const icon = request["tool_name"].startsWith("mcp_") ? "plug" : "wrench";
  return { icon, title: t("act.other", { tool: request["tool_name"], action: request["action"] }), subject };
}

/** The first question, and how many there are. @param {Record<string, any>} batch */
export function questionsOf(batch) {
  const questions = batch["questions"] ?? [];
  const count = questions.length;
  const subject = batch["confirm_title"] || questions[0]?.question || "";
  return { icon: "message-circle-question-mark", title: t("questions.title", { count, n: count }), subject };
}

/** @param {WaitingItem} item */
export const headOf = (item) => (item.kind === "approval" ? actOf(item.data) : questionsOf(item.data));

/** @param {Record<string, unknown>} values @param {string[]} names */
function firstText(values, names) {
  for (const name of names) {
    const value = values[name];
    if (typeof value === "string" && value) return value.split("\n", 1)[0] ?? "";
  }
  return "";
}

/** @type {Record<string, {icon: string, look: string, by: StringKey, alone: StringKey}>} */
const ENDS = {
  allowed: { icon: "circle-check", look: "done", by: "ends.allowed_by", alone: "ends.allowed" },
  denied: { icon: "circle-x", look: "wrong", by: "ends.denied_by", alone: "ends.denied" },
  answered: { icon: "circle-check", look: "done", by: "ends.answered_by", alone: "ends.answered" },
  dismissed: { icon: "circle-slash", look: "", by: "ends.dismissed_by", alone: "ends.dismissed" },
  withdrawn: { icon: "circle-slash", look: "", by: "ends.withdrawn", alone: "ends.withdrawn" },
};
const UNKNOWN = { icon: "circle-slash", look: "", by: /** @type {StringKey} */ ("ends.gone"), alone: /** @type {StringKey} */ ("ends.gone") };

/** @type {Record<string, StringKey>} */
const SCOPES = { run: "ends.for_run", session: "ends.for_session", workspace: "ends.for_workspace" };

/**
 * Who answered what. `resolution` is the event, the reply to an answer, or a past request.
 * @param {Record<string, any>} resolution
 * @returns {{icon: string, look: string, text: string}}
 */
export function endOf(resolution) {
  const state = resolution["state"] ?? (resolution["granted"] ? "allowed" : resolution["denied"] ? "denied" : "");
  const end = (Object.hasOwn(ENDS, state) ? ENDS[state] : undefined) ?? UNKNOWN;
  const author = resolution["author"];
  let text = t(end.alone);
  if (author?.kind === "policy") text = t(state === "denied" ? "ends.denied_by_policy" : "ends.dismissed_by_policy");
  else if (author?.name) text = t(end.by, { name: author.name });
  const scope = SCOPES[resolution["scope"]];
  if (scope) text += ` ${t(scope)}`;
  if (resolution["until"]) text += ` ${t("ends.until", { time: moment(resolution["until"]) })}`;
  if (resolution["has_changed_arguments"]) text += ` ${t("ends.changed")}`;
  return { icon: end.icon, look: end.look, text };
}
