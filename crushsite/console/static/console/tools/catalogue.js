// The tools by name: their icon, their name in words, and which of their arguments stands for the call.

import { t } from "../core/strings.js";
import { objectsOf, textOf } from "./arguments.js";

/** @typedef {Record<string, any>} Values */
/** @typedef {{icon: string, label: StringKey, body: string, main: (values: Values) => string}} Kind */

/** @param {...string} names */
const first = (...names) => (/** @type {Values} */ values) => names.map((name) => textOf(values, name)).find((each) => each !== "") ?? "";

/** @param {StringKey} key @param {string} name */
const counted = (key, name) => (/** @type {Values} */ values) => {
  const n = objectsOf(values, name).length;
  return n ? t(key, { n }) : "";
};

/** @param {Values} values */
const searched = (values) => [textOf(values, "pattern"), textOf(values, "path")].filter(Boolean).join(" · ");

/** @param {string} icon @param {StringKey} label @param {string} body @param {(values: Values) => string} main @returns {Kind} */
const kind = (icon, label, body, main) => ({ icon, label, body, main });

/** @type {Record<string, Kind>} */
const KINDS = {
  bash: kind("square-terminal", "tool.bash", "terminal", first("command", "description")),
  job_output: kind("scroll-text", "tool.job_output", "job", first("shell_id")),
  job_kill: kind("circle-stop", "tool.job_kill", "job", first("shell_id")),
  edit: kind("file-pen", "tool.edit", "change", first("file_path")),
  multiedit: kind("file-pen", "tool.multiedit", "change", first("file_path")),
  write: kind("file-plus", "tool.write", "change", first("file_path")),
  lsp_rename: kind("file-pen", "tool.lsp_rename", "change", (values) => `${textOf(values, "symbol")} → ${textOf(values, "new_name")}`),
  lsp_replace_symbol: kind("file-pen", "tool.lsp_replace_symbol", "change", first("symbol", "file_path")),
  download: kind("download", "tool.download", "plain", first("url", "file_path")),
  view: kind("file-search", "tool.view", "file", first("file_path")),
  ls: kind("folder-open", "tool.ls", "list", first("path")),
  glob: kind("search", "tool.glob", "list", searched),
  grep: kind("text-search", "tool.grep", "list", searched),
  fetch: kind("globe", "tool.fetch", "page", first("url")),
  web_fetch: kind("globe", "tool.fetch", "page", first("url")),
  web_search: kind("globe", "tool.web_search", "pages", first("query")),
  sourcegraph: kind("globe", "tool.sourcegraph", "page", first("query")),
  agent: kind("bot", "tool.agent", "agent", first("prompt")),
  agentic_fetch: kind("bot", "tool.agentic_fetch", "agent", first("prompt", "url")),
  todos: kind("list-todo", "tool.todos", "todos", counted("tool.todos_count", "todos")),
  question: kind("message-circle-question-mark", "tool.question", "question", (values) => textOf(objectsOf(values, "questions")[0] ?? {}, "question")),
  lsp_diagnostics: kind("activity", "tool.lsp_diagnostics", "plain", first("file_path")),
  lsp_references: kind("file-search", "tool.lsp_references", "plain", first("symbol")),
  lsp_definition: kind("file-search", "tool.lsp_definition", "plain", first("symbol")),
  lsp_symbols: kind("file-search", "tool.lsp_symbols", "plain", first("file_path")),
  lsp_call_hierarchy: kind("file-search", "tool.lsp_call_hierarchy", "plain", first("symbol")),
  lsp_restart: kind("refresh-cw", "tool.lsp_restart", "plain", first("name")),
  list_mcp_resources: kind("plug", "tool.list_mcp_resources", "plain", first("mcp_name")),
  read_mcp_resource: kind("plug", "tool.read_mcp_resource", "plain", first("uri")),
};

const MCP = "mcp_";

/** @param {string} name a model may call a tool that does not exist @returns {Kind & {title: string}} */
export function kindOf(name) {
  const known = Object.hasOwn(KINDS, name) ? KINDS[name] : undefined;
  if (known) return { ...known, title: t(known.label) };
  const isMcp = name.startsWith(MCP);
  const title = isMcp ? name.slice(MCP.length).replaceAll("_", " ") : name;
  return { ...kind(isMcp ? "plug" : "wrench", "tool.unknown", "plain", firstText), title: title || t("tool.unknown") };
}

/** The first argument that is a short text. @param {Values} values */
function firstText(values) {
  const found = Object.values(values).find((each) => typeof each === "string" && each !== "");
  return typeof found === "string" ? found.slice(0, 200) : "";
}
