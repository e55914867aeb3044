// What you may do in a workspace. The server checks it again; here it decides what is offered.

import { at, get } from "./api.js";

/** @type {Map<string, Promise<Set<string>>>} */
const known = new Map();

/** Your rights, read once for each page load. @param {string} workspaceId @returns {Promise<Set<string>>} */
export function rightsIn(workspaceId) {
  const found = known.get(workspaceId) ?? read(workspaceId);
  known.set(workspaceId, found);
  found.catch(() => known.delete(workspaceId));
  return found;
}

/** @param {string} workspaceId */
async function read(workspaceId) {
  const { can } = await get(at`workspaces/${workspaceId}`);
  return new Set(/** @type {string[]} */ (can));
}
