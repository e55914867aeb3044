// What can complete a prompt: files of the workspace after `@`, and commands after `/` at its start.

import { at, get, post } from "../core/api.js";
import { t } from "../core/strings.js";
import { textFile } from "./attachments.js";
import { builtIn } from "./commands.js";

/** @typedef {{kind: "file" | "command", start: number, end: number, query: string}} Word */
/**
 * @typedef {object} Suggestion
 * @property {string} label
 * @property {string} detail
 * @property {string} icon
 * @property {string} [text] replaces the word
 * @property {() => Promise<{text?: string, file?: any} | undefined>} [choose] instead: gives a text or a file
 */

/** The word before the caret, if it can be completed. @param {string} text @param {number} caret @returns {Word | null} */
export function wordAt(text, caret) {
  const before = text.slice(0, caret);
  const command = /^\/([\w:.-]*)$/.exec(before);
  if (command) return { kind: "command", start: 0, end: caret, query: command[1] ?? "" };
  const file = /(?:^|[\s(])@([^\s@]*)$/.exec(before);
  if (!file) return null;
  const query = file[1] ?? "";
  return { kind: "file", start: caret - query.length - 1, end: caret, query };
}

/** @param {string} workspaceId @param {string} q @param {AbortSignal} signal @returns {Promise<Suggestion[]>} */
export async function filesFor(workspaceId, q, signal) {
  const found = await get(at`workspaces/${workspaceId}/paths?q=${q}&limit=12`, { signal });
  return found.items.map((/** @type {Schemas["Path"]} */ each) => ({
    label: each.path,
    detail: "",
    icon: each.is_folder ? "folder" : "file",
    text: `@${each.path}${each.is_folder ? "/" : " "}`,
  }));
}

/** @type {Map<string, Promise<Suggestion[]>>} */
const commands = new Map();

/** Commands that match, the best first. @param {SessionFeed} feed @param {string} query */
export async function commandsFor(feed, query) {
  let loading = commands.get(feed.workspaceId);
  if (!loading) {
    loading = others(feed.workspaceId);
    commands.set(feed.workspaceId, loading);
    setTimeout(() => commands.delete(feed.workspaceId), 60_000); // skills and servers change
  }
  const own = builtIn(feed).map((each) => ({ label: `/${each.name}`, detail: each.detail, icon: "terminal", text: `/${each.name} ` }));
  const all = [...own, ...(await loading)];
  if (!query) return all;
  const { default: UFuzzy } = await import("../vendor/ufuzzy.js");
  const fuzzy = new UFuzzy({ intraMode: 1 });
  const [indexes, info, order] = fuzzy.search(all.map((each) => `${each.label} ${each.detail}`), query, 0, 1000);
  const found = order && info ? order.map((place) => info.idx[place]) : (indexes ?? []);
  return found.map((index) => all[index ?? -1]).filter((each) => each !== undefined);
}

/** @param {string} workspaceId @returns {Promise<Suggestion[]>} */
async function others(workspaceId) {
  const found = await Promise.all([skills(workspaceId).catch(() => []), prompts(workspaceId).catch(() => [])]);
  return found.flat();
}

/** @param {string} workspaceId @returns {Promise<Suggestion[]>} */
async function skills(workspaceId) {
  const found = await get(at`workspaces/${workspaceId}/skills`);
  return found.items
    .filter((/** @type {Schemas["Skill"]} */ each) => each.user_invocable)
    .map((/** @type {Schemas["Skill"]} */ each) => ({
      label: `/${each.name}`,
      detail: each.description,
      icon: "wand-sparkles",
      choose: async () => {
        const content = await get(at`workspaces/${workspaceId}/skills/content?id=${each.id}`);
        return { text: t("composer.use_skill", { name: each.name }), file: textFile(`${each.name}.md`, each.id, content.content) };
      },
    }));
}

/** Prompts of MCP servers that need no arguments. @param {string} workspaceId @returns {Promise<Suggestion[]>} */
async function prompts(workspaceId) {
  const servers = await get(at`workspaces/${workspaceId}/mcp-servers`);
  const withPrompts = servers.items.filter((/** @type {Schemas["McpServer"]} */ each) => each.prompt_count > 0);
  const details = await Promise.all(withPrompts.map((/** @type {Schemas["McpServer"]} */ each) => get(at`workspaces/${workspaceId}/mcp-servers/${each.name}`)));
  return details.flatMap((/** @type {Schemas["McpServerDetail"]} */ server) =>
    server.prompts
      .filter((each) => !each.arguments.some((argument) => argument.required))
      .map((each) => ({
        label: `/${server.name}:${each.name}`,
        detail: each.description || each.title,
        icon: "plug",
        choose: async () => {
          const answer = await post(at`workspaces/${workspaceId}/mcp-servers/${server.name}/prompt`, { prompt: each.name, arguments: {} });
          return { text: answer.text };
        },
      })),
  );
}
