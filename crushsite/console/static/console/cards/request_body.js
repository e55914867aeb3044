// What a call would do: a command, a change, what a folder would start, or the tool's own values.

import { html, nothing } from "../vendor/lit.js";
import { t } from "../core/strings.js";
import "../text/diff_view.js";

const SHOWN_ELSEWHERE = new Set(["old_content", "new_content", "file_path"]);
const TRUST = /** @type {const} */ (["starts", "sends_to", "allows", "expands", "programs", "files"]);

/**
 * @param {Record<string, any>} request
 * @param {Record<string, any> | null} detail the request with its diff, once it is loaded
 */
export function bodyOf(request, detail) {
  const params = request["params"] ?? {};
  if (request["tool_name"] === "trust") return trust(params);
  if ("command" in params) return command(request, params);
  if ("old_content" in params && "new_content" in params) return change(request, params, detail);
  return values(request, params);
}

/** @param {Record<string, any>} request @param {Record<string, any>} params */
function command(request, params) {
  return html`${params["description"] ? html`<p>${params["description"]}</p>` : nothing}
    <pre class="request-command" tabindex="0">${params["command"]}</pre>
    ${place(t("cards.path"), request["path"])}`;
}

/** @param {Record<string, any>} request @param {Record<string, any>} params @param {Record<string, any> | null} detail */
function change(request, params, detail) {
  const files = request["files"]?.length ? request["files"] : [params["file_path"] ?? request["path"]];
  return html`${files.map((/** @type {string} */ file) => place(t("cards.file"), file))}
    ${detail === null
      ? html`<p class="quiet" role="status">${t("cards.loading")}</p>`
      : detail["diff"]
        ? html`<c-diff .diff=${detail["diff"]} .path=${params["file_path"] ?? ""}></c-diff>`
        : html`<p class="quiet">${t("cards.no_change")}</p>`}`;
}

/** @param {Record<string, any>} params */
function trust(params) {
  return html`<p>${t("trust.advice")}</p>
    ${place(t("trust.folder"), params["folder"] ?? "")}
    ${TRUST.map((name) =>
      params[name] ? html`<p class="label">${t(`trust.${name}`)}</p><pre class="request-command" tabindex="0">${params[name]}</pre>` : nothing,
    )}`;
}

/** @param {Record<string, any>} request @param {Record<string, any>} params */
function values(request, params) {
  const shown = Object.entries(params).filter(([name, value]) => !SHOWN_ELSEWHERE.has(name) && value !== "" && value !== null && value !== 0);
  const isShown = request["description"] && request["cut_output"] === undefined; // the card shows the rest
  return html`${isShown ? html`<p class="request-description">${request["description"]}</p>` : nothing}
    ${place(t("cards.path"), params["file_path"] ?? request["path"])}
    ${shown.length === 0
      ? nothing
      : html`<dl class="request-values">
          ${shown.map(([name, value]) => html`<dt>${name}</dt><dd>${typeof value === "string" ? value : JSON.stringify(value, null, 2)}</dd>`)}
        </dl>`}`;
}

/** @param {string} name @param {string} path */
const place = (name, path) => (path ? html`<p class="request-path"><span class="quiet">${name}</span> <code>${path}</code></p>` : nothing);
