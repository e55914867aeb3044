// The sections of the settings. Each loads when it is first shown.

import { html } from "../vendor/lit.js";

/**
 * `needs`: the right without which a section is left out.
 * @typedef {{workspaceId: string, rights: Set<string>, me: any}} Context
 * @typedef {{name: string, icon: string, needs?: string, load: () => Promise<unknown>, show: (of: Context) => unknown}} Section
 */

/** @type {Section[]} */
export const OF_SERVER = [
  {
    name: "appearance",
    icon: "monitor",
    load: () => import("./appearance.js"),
    show: (of) => html`<c-settings-appearance .rights=${of.rights} .me=${of.me}></c-settings-appearance>`,
  },
  {
    name: "notifications",
    icon: "bell",
    needs: "account",
    load: () => import("./notifications.js"),
    show: (of) => html`<c-settings-notifications .rights=${of.rights} .me=${of.me}></c-settings-notifications>`,
  },
  {
    name: "phone",
    icon: "smartphone",
    needs: "account",
    load: () => import("./phone.js"),
    show: (of) => html`<c-settings-phone .rights=${of.rights} .me=${of.me}></c-settings-phone>`,
  },
  {
    name: "tokens",
    icon: "key-round",
    needs: "account",
    load: () => import("./tokens.js"),
    show: (of) => html`<c-settings-tokens .rights=${of.rights} .me=${of.me}></c-settings-tokens>`,
  },
  {
    name: "grants",
    icon: "hand",
    load: () => import("./grants.js"),
    show: (of) => html`<c-settings-grants .rights=${of.rights} .me=${of.me}></c-settings-grants>`,
  },
  {
    name: "trust",
    icon: "shield-check",
    needs: "trust",
    load: () => import("./trust.js"),
    show: (of) => html`<c-settings-trust .rights=${of.rights} .me=${of.me}></c-settings-trust>`,
  },
  {
    name: "users",
    icon: "users",
    needs: "administer",
    load: () => import("./users.js"),
    show: (of) => html`<c-settings-users .rights=${of.rights} .me=${of.me}></c-settings-users>`,
  },
  {
    name: "groups",
    icon: "network",
    needs: "administer",
    load: () => import("./groups.js"),
    show: (of) => html`<c-settings-groups .rights=${of.rights} .me=${of.me}></c-settings-groups>`,
  },
  {
    name: "audit",
    icon: "scroll-text",
    needs: "administer",
    load: () => import("./audit.js"),
    show: (of) => html`<c-settings-audit .rights=${of.rights} .me=${of.me}></c-settings-audit>`,
  },
];

/** @type {Section[]} */
export const OF_WORKSPACE = [
  {
    name: "models",
    icon: "brain",
    needs: "read",
    load: () => import("./models.js"),
    show: (of) => html`<c-settings-models .workspaceId=${of.workspaceId} .rights=${of.rights}></c-settings-models>`,
  },
  {
    name: "mcp",
    icon: "plug",
    needs: "read",
    load: () => import("./mcp_servers.js"),
    show: (of) => html`<c-settings-mcp .workspaceId=${of.workspaceId} .rights=${of.rights}></c-settings-mcp>`,
  },
  {
    name: "lsp",
    icon: "wrench",
    needs: "read",
    load: () => import("./language_servers.js"),
    show: (of) => html`<c-settings-lsp .workspaceId=${of.workspaceId} .rights=${of.rights}></c-settings-lsp>`,
  },
  {
    name: "skills",
    icon: "sparkles",
    needs: "read",
    load: () => import("./skills.js"),
    show: (of) => html`<c-settings-skills .workspaceId=${of.workspaceId} .rights=${of.rights}></c-settings-skills>`,
  },
  {
    name: "configuration",
    icon: "zap",
    needs: "read",
    load: () => import("./configuration.js"),
    show: (of) => html`<c-settings-configuration .workspaceId=${of.workspaceId} .rights=${of.rights}></c-settings-configuration>`,
  },
  {
    name: "approvals",
    icon: "shield-question-mark",
    needs: "read",
    load: () => import("./approval_policy.js"),
    show: (of) => html`<c-settings-approvals .workspaceId=${of.workspaceId} .rights=${of.rights}></c-settings-approvals>`,
  },
  {
    name: "grants",
    icon: "hand",
    needs: "read",
    load: () => import("./grants.js"),
    show: (of) => html`<c-settings-grants .workspaceId=${of.workspaceId} .rights=${of.rights}></c-settings-grants>`,
  },
  {
    name: "trust",
    icon: "shield-check",
    needs: "read",
    load: () => import("./workspace_trust.js"),
    show: (of) => html`<c-settings-workspace-trust .workspaceId=${of.workspaceId} .rights=${of.rights}></c-settings-workspace-trust>`,
  },
  {
    name: "members",
    icon: "users",
    needs: "read",
    load: () => import("./members.js"),
    show: (of) => html`<c-settings-members .workspaceId=${of.workspaceId} .rights=${of.rights} .me=${of.me}></c-settings-members>`,
  },
  {
    name: "audit",
    icon: "scroll-text",
    needs: "administer",
    load: () => import("./audit.js"),
    show: (of) => html`<c-settings-audit .workspaceId=${of.workspaceId} .rights=${of.rights} .me=${of.me}></c-settings-audit>`,
  },
];
