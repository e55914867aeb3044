// Tokens and cost of model requests: a chart by day, and tables by day, model, workspace and user.

import { html, nothing } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { collect, query } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { count, money, nameOf } from "../core/format.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { amount, labelOf, seriesOf, shown, totalOf } from "./figures.js";
import "./chart.js";

const RANGES = ["7", "30", "90", "all"];
const MEASURES = ["cost", "tokens"];
const SPLITS = ["none", "model", "workspace", "user"];
/** @type {UsageGroup[]} */
const TABLES = ["model", "workspace", "user", "day"];
const DAY_SECONDS = 86_400;

/** @param {string} name @param {string[]} allowed @param {string} fallback */
function fromAddress(name, allowed, fallback) {
  const value = new URLSearchParams(location.search).get(name) ?? "";
  return allowed.includes(value) ? value : fallback;
}

class Usage extends PageElement {
  static properties = {
    _range: { state: true },
    _chosen: { state: true },
    _split: { state: true },
    _workspace: { state: true },
    _workspaces: { state: true },
    _rows: { state: true },
    _error: { state: true },
  };

  constructor() {
    super();
    this._range = fromAddress("range", RANGES, "30");
    /** Empty until a person chooses. */
    this._chosen = fromAddress("show", MEASURES, "");
    this._split = /** @type {UsageGroup | "none"} */ (fromAddress("split", SPLITS, "model"));
    this._workspace = new URLSearchParams(location.search).get("workspace") ?? "";
    /** @type {any[]} */
    this._workspaces = [];
    /** The rows of each group, and of the chart. @type {Record<string, any[]> | null} */
    this._rows = null;
    /** @type {Error | null} */
    this._error = null;
    this._now = Date.now() / 1000;
    this._requests = 0;
  }

  connectedCallback() {
    super.connectedCallback();
    void this._load();
    void this._loadWorkspaces();
  }

  /** Models without prices cost nothing: then tokens are the better first view. @returns {UsageMeasure} */
  get _measure() {
    if (this._chosen) return /** @type {UsageMeasure} */ (this._chosen);
    const isFree = this._rows !== null && totalOf(this._rows["model"] ?? []).cost === 0;
    return isFree ? "tokens" : "cost";
  }

  /** Whole days, the current one included. Zero: from the beginning. */
  get _since() {
    if (this._range === "all") return 0;
    return (Math.floor(this._now / DAY_SECONDS) - Number(this._range) + 1) * DAY_SECONDS;
  }

  /** @param {string} by */
  _query(by) {
    return query({ by, since: this._since || undefined, workspace_id: this._workspace });
  }

  async _loadWorkspaces() {
    try {
      this._workspaces = await collect("workspaces?state=all");
    } catch {
      this._workspaces = []; // the page works without the filter, and shows the error of its own request
    }
  }

  async _load() {
    const number = ++this._requests;
    this._now = Date.now() / 1000;
    this._error = null;
    try {
      const wanted = [...TABLES, this._split === "none" ? "day" : `day,${this._split}`];
      const found = await Promise.all(
        [...new Set(wanted)].map(async (by) => /** @type {const} */ ([by, await collect(`usage${this._query(by)}&limit=200`)])),
      );
      if (number !== this._requests) return;
      this._rows = Object.fromEntries(found);
      announce(t("usage.loaded", { total: money(totalOf(this._rows["model"] ?? []).cost) }));
    } catch (error) {
      if (number === this._requests) this._error = /** @type {Error} */ (error);
    }
  }

  /** Changes what is shown; the address has it, so that a page can be reloaded and sent.
   * @param {Record<string, string>} change */
  _choose(change) {
    Object.assign(this, change);
    const address = query({ range: this._range, show: this._chosen, split: this._split, workspace: this._workspace });
    history.replaceState(null, "", location.pathname + address);
    if (!("_chosen" in change)) void this._load();
  }

  render() {
    return html`<div class="page usage">
      <div class="page-head">
        <h1>${t("usage.title")}</h1>
        <a class="button" href="/api/usage/csv${this._query("day,workspace,user,model")}" download="usage.csv">${icon("download")}${t("usage.csv")}</a>
      </div>
      <form class="usage-filters" @submit=${(/** @type {Event} */ event) => event.preventDefault()}>
        ${this._choice("_range", "usage.range", RANGES)} ${this._choice("_chosen", "usage.measure", MEASURES)}
        ${this._choice("_split", "usage.split", SPLITS)}
        <div class="field">
          <label for="usage-workspace">${t("usage.workspace")}</label>
          <select id="usage-workspace" class="input" @change=${(/** @type {any} */ event) => this._choose({ _workspace: event.target.value })}>
            <option value="" ?selected=${this._workspace === ""}>${t("usage.every_workspace")}</option>
            ${this._workspaces.map((each) => html`<option value=${each.id} ?selected=${this._workspace === each.id}>${nameOf(each.path)}</option>`)}
          </select>
        </div>
      </form>
      ${this._error ? this._failed(this._error) : this._rows === null ? html`<p class="quiet">${t("state.loading")}</p>` : this._figures(this._rows)}
    </div>`;
  }

  /** @param {"_range" | "_chosen" | "_split"} name @param {StringKey} label @param {string[]} values */
  _choice(name, label, values) {
    return html`<fieldset class="segments">
      <legend class="label">${t(label)}</legend>
      <div class="segments-row">
        ${values.map(
          (value) => html`<label class="segment">
            <input type="radio" name=${name} value=${value} .checked=${(name === "_chosen" ? this._measure : this[name]) === value} @change=${() => this._choose({ [name]: value })} />
            <span>${t(/** @type {StringKey} */ (`${label}.${value}`))}</span>
          </label>`,
        )}
      </div>
    </fieldset>`;
  }

  /** @param {Error} error */
  _failed(error) {
    return html`<div class="notice" role="alert">
      <p>${error.message}</p>
      <button class="button" @click=${() => void this._load()}>${t("error.retry")}</button>
    </div>`;
  }

  /** @param {Record<string, any[]>} rows */
  _figures(rows) {
    const total = totalOf(rows["model"] ?? []);
    if (total.requests === 0) return html`<p class="card quiet">${t("usage.empty")}</p>`;
    const chart = rows[this._split === "none" ? "day" : `day,${this._split}`] ?? rows["day"] ?? [];
    const measure = t(`usage.measure.${this._measure}`);
    const { days, series } = seriesOf(chart, this._measure, this._split, this._since, this._now);
    const label = t("usage.chart_label", { measure, days: days.length, total: shown(amount(total, this._measure), this._measure) });
    return html`
      <dl class="usage-totals">
        ${this._total("usage.total.cost", money(total.cost))} ${this._total("usage.total.requests", count(total.requests))}
        ${this._total("usage.total.prompt", count(total.prompt_tokens))} ${this._total("usage.total.completion", count(total.completion_tokens))}
        ${this._total("usage.total.cached", count(total.cache_read_tokens))}
      </dl>
      <section class="card" aria-labelledby="usage-chart">
        <h2 id="usage-chart">${t("usage.chart", { measure })}</h2>
        <c-usage-chart .days=${days} .series=${series} .measure=${this._measure} .label=${label}></c-usage-chart>
      </section>
      <div class="usage-tables">${TABLES.map((group) => this._table(group, rows[group] ?? []))}</div>
    `;
  }

  /** @param {StringKey} label @param {string} value */
  _total(label, value) {
    return html`<div><dt class="quiet small">${t(label)}</dt><dd>${value}</dd></div>`;
  }

  /** @param {UsageGroup} group @param {any[]} rows */
  _table(group, rows) {
    const most = rows.reduce((all, row) => Math.max(all, amount(row, this._measure)), 0);
    const sorted = group === "day" ? rows : [...rows].sort((one, other) => amount(other, this._measure) - amount(one, this._measure));
    const title = t(`usage.by.${group}`);
    return html`<div class="card">
      <h2>${title}</h2>
      <div class="table-scroll" tabindex="0" role="region" aria-label=${title}>
        <table class="table">
          <thead>
            <tr>
              <th scope="col">${t(`usage.column.${group}`)}</th>
              <th scope="col" class="number">${t("usage.total.cost")}</th>
              <th scope="col" class="number">${t("usage.total.requests")}</th>
              <th scope="col" class="number">${t("usage.total.prompt")}</th>
              <th scope="col" class="number">${t("usage.total.completion")}</th>
            </tr>
          </thead>
          <tbody>
            ${sorted.map(
              (row) => html`<tr>
                <th scope="row">
                  <span class="usage-name" title=${group === "workspace" ? row.workspace_path : nothing}>${labelOf(row, group)}</span>
                  <svg class="usage-bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
                    <rect width=${most > 0 ? (100 * amount(row, this._measure)) / most : 0} height="4"></rect>
                  </svg>
                </th>
                <td class="number">${money(row.cost)}</td>
                <td class="number">${count(row.requests)}</td>
                <td class="number">${count(row.prompt_tokens)}</td>
                <td class="number">${count(row.completion_tokens)}</td>
              </tr>`,
            )}
          </tbody>
        </table>
      </div>
    </div>`;
  }
}

customElements.define("c-usage", Usage);
