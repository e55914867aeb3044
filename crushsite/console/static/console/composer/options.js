// What a prompt chooses for its own run: model, effort, and a budget. Remembered for this tab.

import { html, nothing } from "../vendor/lit.js";
import { at, everything } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { t } from "../core/strings.js";

/** @typedef {{model?: string, effort?: string, cost?: string, tokens?: string, steps?: string, minutes?: string}} Chosen */

const PREFIX = "crush-options ";

/** @param {string} sessionId @returns {Chosen} */
export function optionsOf(sessionId) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + sessionId) ?? "{}");
  } catch {
    return {};
  }
}

/** As the server takes them; undefined without a choice. @param {Chosen} chosen */
export function asOptions({ model, effort, cost, tokens, steps, minutes }) {
  /** @type {Record<string, number>} */
  const budget = {};
  if (Number(cost) > 0) budget["cost"] = Number(cost);
  if (Number(tokens) > 0) budget["tokens"] = Math.round(Number(tokens));
  if (Number(steps) > 0) budget["steps"] = Math.round(Number(steps));
  if (Number(minutes) > 0) budget["seconds"] = Math.max(1, Math.round(Number(minutes) * 60));
  const options = { ...(model && { model }), ...(effort && { effort }), ...(Object.keys(budget).length > 0 && { budget }) };
  return Object.keys(options).length > 0 ? options : undefined;
}

class PromptOptions extends PageElement {
  static properties = { feed: { attribute: false }, _models: { state: true }, _chosen: { state: true } };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    /** @type {Schemas["Model"][] | null} */
    this._models = null;
    /** @type {Chosen} */
    this._chosen = {};
  }

  connectedCallback() {
    super.connectedCallback();
    this._chosen = optionsOf(this.feed?.sessionId ?? "");
    void this._load();
  }

  async _load() {
    const models = [];
    try {
      for await (const each of everything(at`workspaces/${this.feed?.workspaceId ?? ""}/models`)) models.push(each);
    } catch {
      // The server's choice is used; the next opening tries again.
    }
    this._models = models;
  }

  /** @param {Chosen} change */
  _choose(change) {
    this._chosen = { ...this._chosen, ...change };
    if ("model" in change) this._chosen.effort = "";
    sessionStorage.setItem(PREFIX + this.feed?.sessionId, JSON.stringify(this._chosen));
    this.emit("options-changed");
  }

  render() {
    const { model = "", effort = "" } = this._chosen;
    const models = this._models ?? [];
    const info = models.find((each) => (model ? `${each.provider}/${each.id}` === model : each.chosen_as.includes("large")));
    return html`<fieldset class="prompt-options">
      <legend class="label">${t("options.legend")}</legend>
      <div class="field">
        <label for="option-model">${t("options.model")}</label>
        <select id="option-model" class="input" @change=${(/** @type {any} */ event) => this._choose({ model: event.target.value })}>
          <option value="" ?selected=${!model}>${t("options.default")}</option>
          ${models.map((each) => {
            const value = `${each.provider}/${each.id}`;
            return html`<option value=${value} ?selected=${value === model}>${each.name || each.id} (${each.provider})</option>`;
          })}
        </select>
      </div>
      ${info && info.reasoning_levels.length > 0
        ? html`<div class="field">
            <label for="option-effort">${t("options.effort")}</label>
            <select id="option-effort" class="input" @change=${(/** @type {any} */ event) => this._choose({ effort: event.target.value })}>
              <option value="" ?selected=${!effort}>${t("options.default")}</option>
              ${info.reasoning_levels.map((level) => html`<option value=${level} ?selected=${level === effort}>${level}</option>`)}
            </select>
          </div>`
        : nothing}
      ${this._limit("cost", "options.cost", "0.01")} ${this._limit("tokens", "options.tokens", "1")}
      ${this._limit("steps", "options.steps", "1")} ${this._limit("minutes", "options.minutes", "any")}
    </fieldset>`;
  }

  /** @param {"cost" | "tokens" | "steps" | "minutes"} name @param {StringKey} label @param {string} step */
  _limit(name, label, step) {
    return html`<div class="field">
      <label for="option-${name}">${t(label)}</label>
      <input id="option-${name}" class="input" type="number" min="0" step=${step} inputmode="decimal" placeholder=${t("options.unlimited")}
        .value=${this._chosen[name] ?? ""} @change=${(/** @type {any} */ event) => this._choose({ [name]: event.target.value })} />
    </div>`;
  }
}

customElements.define("c-prompt-options", PromptOptions);
