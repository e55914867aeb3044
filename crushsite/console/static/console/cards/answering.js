// Sends answers, and reads requests with all that a person needs to decide.

import { at, get, post } from "../core/api.js";

/** @typedef {Record<string, any>} Fields */

/** A button does nothing for this time after it has appeared: the press was meant for something else. */
export const GUARD_MS = 400;

/** @param {WaitingItem} item */
export const isTrust = (item) => item.kind === "approval" && item.data["tool_name"] === "trust";

/** @param {WaitingItem} item @returns {Promise<Fields>} */
export function detailOf(item) {
  const { workspaceId, id } = item;
  if (isTrust(item)) return get(at`workspaces/${workspaceId}/trust-requests/${id}`);
  return get(item.kind === "approval" ? at`workspaces/${workspaceId}/approvals/${id}` : at`workspaces/${workspaceId}/questions/${id}`);
}

/**
 * Answers a permission request. The reply has `resolved`, and the state and author of the answer that counts.
 * @param {WaitingItem} item @param {Fields} fields
 * @returns {Promise<Fields>}
 */
export function answerApproval(item, fields) {
  const { workspaceId, id } = item;
  return post(isTrust(item) ? at`workspaces/${workspaceId}/trust-requests/${id}/answer` : at`workspaces/${workspaceId}/approvals/${id}/answer`, fields);
}

/** @param {WaitingItem} item @param {Fields[]} responses @returns {Promise<Fields>} */
export const answerQuestions = (item, responses) =>
  post(at`workspaces/${item.workspaceId}/questions/${item.id}/answer`, { responses });

/** @param {WaitingItem} item @returns {Promise<Fields>} */
export const dismissQuestions = (item) => post(at`workspaces/${item.workspaceId}/questions/${item.id}/dismiss`, {});
