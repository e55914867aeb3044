// The roles of users and groups, as the settings show them and as forms offer them.

import { nameOf } from "../core/format.js";
import { t } from "../core/strings.js";

export const ROLES = /** @type {const} */ (["viewer", "prompter", "approver", "admin"]);

/** @param {string} role */
export const roleName = (role) => t(/** @type {StringKey} */ (`settings.role.${role}`));

/** What a form offers: each role with what it may do. @returns {[string, string][]} */
export const roleChoices = () => ROLES.map((each) => [each, t(`settings.role.${each}_about`)]);

/** Where a role holds. @param {string | null} workspaceId @param {Map<string, string>} paths of workspaces */
export const placeOfRole = (workspaceId, paths) =>
  workspaceId === null ? t("settings.role.everywhere") : nameOf(paths.get(workspaceId) ?? workspaceId);

/** The workspaces that a form offers, each with its folder. @param {any[]} workspaces @returns {[string, string][]} */
export const workspaceChoices = (workspaces) => [["", t("settings.role.everywhere")], ...workspaces.map((each) => /** @type {[string, string]} */ ([each.id, each.path]))];
