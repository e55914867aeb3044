// What the person may answer. The server decides; this says it before somebody has pressed a button.

import { get } from "../core/api.js";

/** @type {Promise<any> | null} */
let known = null;

/** @returns {Promise<any>} the identity of this browser's person */
export function me() {
  known ??= get("me").catch((error) => {
    known = null;
    throw error;
  });
  return known;
}

const MAY_ANSWER = new Set(["approver", "admin"]);

/**
 * Whether a person may answer in a workspace; a request for trust needs an administrator.
 * @param {Record<string, any>} who @param {string} workspaceId
 */
export function mayAnswer(who, workspaceId, isTrust = false) {
  const right = isTrust ? "trust" : "answer";
  if (who["scopes"] && !who["scopes"].includes(right)) return false;
  if (who["workspaces"] && !who["workspaces"].includes(workspaceId)) return false;
  if (who["is_staff"]) return true;
  return (who["roles"] ?? []).some(
    (/** @type {any} */ each) =>
      (each.workspace_id === null || each.workspace_id === workspaceId) && (isTrust ? each.role === "admin" : MAY_ANSWER.has(each.role)),
  );
}
