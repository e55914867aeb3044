// Stacked bars, one a day. The canvas is an image for screen readers; the tables have its figures.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { shown, shownShort } from "./figures.js";

const HEIGHT = 240;
const COLOURS = 6; // `--series-1` and so on, in usage.css
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });

class UsageChart extends PageElement {
  static properties = { days: { attribute: false }, series: { attribute: false }, measure: { attribute: false }, label: { attribute: false }, _at: { state: true } };

  constructor() {
    super();
    /** @type {number[]} */
    this.days = [];
    /** @type {{label: string, values: number[]}[]} */
    this.series = [];
    /** @type {"cost" | "tokens"} */
    this.measure = "cost";
    this.label = "";
    /** The day under the pointer. @type {number | null} */
    this._at = null;
    /** @type {any} */
    this._plot = null;
    this._isDark = matchMedia("(prefers-color-scheme: dark)");
    this._draw = () => void this._redraw();
    this._sizes = new ResizeObserver(() => this._fit());
    this._themes = new MutationObserver(this._draw);
  }

  connectedCallback() {
    super.connectedCallback();
    this._isDark.addEventListener("change", this._draw);
    this._themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this._sizes.observe(this);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._isDark.removeEventListener("change", this._draw);
    this._themes.disconnect();
    this._sizes.disconnect();
    this._plot?.destroy();
    this._plot = null;
  }

  /** @param {Map<string, unknown>} changed */
  updated(changed) {
    if (["days", "series", "measure"].some((name) => changed.has(name))) this._draw();
  }

  _fit() {
    const width = this.clientWidth;
    if (this._plot && width > 0 && width !== this._plot.width) this._plot.setSize({ width, height: HEIGHT });
  }

  /** The colour of the theme: a canvas cannot read `light-dark()`. @param {string} name */
  _colour(name) {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    this.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  }

  /** The library loads with the first chart. */
  async _redraw() {
    const { default: Plot } = await import("../vendor/uplot.js");
    const place = this.querySelector(".chart-canvas");
    if (!this.isConnected || !(place instanceof HTMLElement)) return;
    this._plot?.destroy();
    this._at = null;
    const style = getComputedStyle(this);
    const colour = (/** @type {string} */ name) => this._colour(name);
    const axis = { stroke: colour("--quiet"), font: `12px ${style.fontFamily}`, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    // Each series is drawn from zero to its top, the highest one first, so that lower ones cover it.
    /** @type {number[][]} */
    const tops = [];
    for (const { values } of this.series) {
      const below = tops[tops.length - 1];
      tops.push(values.map((value, index) => value + (below?.[index] ?? 0)));
    }
    const bars = Plot.paths.bars?.({ size: [0.7, 40], align: 0 });
    const half = 43_200;
    this._plot = new Plot(
      {
        width: this.clientWidth || 320,
        height: HEIGHT,
        tzDate: (seconds) => Plot.tzDate(new Date(seconds * 1000), "UTC"),
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
        hooks: { setCursor: [(/** @type {any} */ plot) => (this._at = plot.cursor.idx ?? null)] },
        scales: {
          x: { range: () => [(this.days[0] ?? 0) - half, (this.days[this.days.length - 1] ?? 0) + half] },
          y: { range: (/** @type {any} */ _, /** @type {number} */ _least, /** @type {number} */ most) => [0, most > 0 ? most * 1.08 : 1] },
        },
        axes: [
          { ...axis, grid: { show: false }, space: 64, incrs: [1, 2, 7, 14, 30, 60, 90, 180, 365].map((days) => days * 86_400), values: (_, splits) => splits.map((each) => DAY.format(new Date(each * 1000))) },
          { ...axis, size: 64, values: (_, splits) => splits.map((each) => shownShort(each, this.measure)) },
        ],
        series: [
          {},
          ...tops.map((_, index) => {
            const fill = colour(`--series-${(tops.length - 1 - index) % COLOURS + 1}`);
            return { fill, stroke: fill, width: 0, points: { show: false }, ...(bars ? { paths: bars } : {}) };
          }),
        ],
      },
      /** @type {any} */ ([this.days, ...tops.reverse()]),
      place,
    );
  }

  render() {
    return html`<div class="chart-canvas" role="img" aria-label=${this.label}></div>
      <div class="chart-foot">
        ${this.series.length > 1
          ? html`<ul class="chart-legend">
              ${this.series.map((each, index) => html`<li><span class="chart-mark series-${(index % COLOURS) + 1}" aria-hidden="true"></span>${each.label}</li>`)}
            </ul>`
          : nothing}
        <p class="quiet small chart-day">${this._day()}</p>
      </div>`;
  }

  _day() {
    const index = this._at;
    if (index === null || this.days[index] === undefined) return "\u00a0";
    const total = this.series.reduce((all, each) => all + (each.values[index] ?? 0), 0);
    return `${DAY.format(new Date((this.days[index] ?? 0) * 1000))}: ${shown(total, this.measure)}`;
  }
}

customElements.define("c-usage-chart", UsageChart);
