// Sums of usage, prepared for charts and tables.

import { count, money, nameOf, short } from "../core/format.js";
import { t } from "../core/strings.js";

/** @typedef {"cost" | "tokens"} Measure */
/** @typedef {"day" | "model" | "workspace" | "user"} Group */
/** @typedef {{label: string, values: number[]}} Series */

const MOST_SERIES = 5;
const DAY_SECONDS = 86_400;

/** @param {any} row @param {Measure} measure @returns {number} */
export const amount = (row, measure) => (measure === "cost" ? row.cost : row.prompt_tokens + row.completion_tokens);

/** @param {number} value @param {Measure} measure */
export const shown = (value, measure) => (measure === "cost" ? money(value) : count(value));

/** The same in little room. @param {number} value @param {Measure} measure */
export const shownShort = (value, measure) => (measure === "cost" ? money(value) : short(value));

/** What a row is about. @param {any} row @param {Group} group @returns {string} */
export function labelOf(row, group) {
  if (group === "day") return row.day;
  if (group === "model") return row.model ? [row.provider, row.model].filter(Boolean).join("/") : t("usage.unknown");
  if (group === "user") return row.user_name || t("usage.unknown");
  return nameOf(row.workspace_path || row.workspace_id || t("usage.unknown"));
}

/** @param {any[]} rows */
export function totalOf(rows) {
  const total = { requests: 0, prompt_tokens: 0, completion_tokens: 0, cache_read_tokens: 0, cost: 0 };
  for (const row of rows) {
    for (const name of /** @type {(keyof typeof total)[]} */ (Object.keys(total))) total[name] += row[name];
  }
  return total;
}

/** The beginning of a day in UTC. @param {string} day as `2026-11-19` */
const startOf = (day) => Date.parse(`${day}T00:00:00Z`) / 1000;

/**
 * All days from the first to the last, also those without usage, and the amounts of each group.
 * The largest groups have a series of their own, the others share one.
 * @param {any[]} rows with a `day`
 * @param {Measure} measure
 * @param {Group | "none"} split
 * @param {number} since unix time, or 0 for the first day with usage
 * @param {number} now unix time
 * @returns {{days: number[], series: Series[]}}
 */
export function seriesOf(rows, measure, split, since, now) {
  const starts = rows.map((row) => startOf(row.day)).filter(Number.isFinite);
  const first = Math.floor((since || starts.reduce((least, each) => Math.min(least, each), now)) / DAY_SECONDS);
  const last = Math.floor(now / DAY_SECONDS);
  const days = Array.from({ length: last - first + 1 }, (_, index) => (first + index) * DAY_SECONDS);
  /** @type {Map<string, number[]>} */
  const groups = new Map();
  for (const row of rows) {
    const label = split === "none" ? "" : labelOf(row, split);
    const values = groups.get(label) ?? days.map(() => 0);
    groups.set(label, values);
    const index = startOf(row.day) / DAY_SECONDS - first;
    if (index in values) values[index] = (values[index] ?? 0) + amount(row, measure);
  }
  const sum = (/** @type {Series} */ one) => one.values.reduce((all, each) => all + each, 0);
  const series = [...groups].map(([label, values]) => ({ label, values })).sort((one, other) => sum(other) - sum(one));
  if (series.length <= MOST_SERIES + 1) return { days, series };
  const rest = series.splice(MOST_SERIES);
  const values = days.map((_, index) => rest.reduce((all, each) => all + (each.values[index] ?? 0), 0));
  return { days, series: [...series, { label: t("usage.others"), values }] };
}
