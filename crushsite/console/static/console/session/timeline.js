// What a run did and waited for, below its last message: folded to a line with its time and cost.

import { html, nothing } from "../vendor/lit.js";
import { ApiError, at, get } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { duration, moment, money, short } from "../core/format.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { visible } from "../text/visible.js";

/** @typedef {Record<string, any>} Entry */

/** @type {Record<string, {icon: string, words: StringKey, tone: string}>} */
const KINDS = {
  queue: { icon: "hourglass", words: "timeline.queue", tone: "queue" },
  reply: { icon: "brain", words: "timeline.reply", tone: "model" },
  summary: { icon: "scroll-text", words: "timeline.summary", tone: "model" },
  call: { icon: "wrench", words: "timeline.call", tone: "tool" },
  approval: { icon: "hand", words: "timeline.approval", tone: "person" },
  questions: { icon: "message-circle-question-mark", words: "timeline.questions", tone: "person" },
  child_run: { icon: "bot", words: "timeline.child_run", tone: "tool" },
};

/** Properties: the `feed`, and the `run` as the REST interface describes it. */
class RunTimeline extends PageElement {
  static properties = { feed: { attribute: false }, run: { attribute: false }, _isOpen: { state: true }, _entries: { state: true } };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    /** @type {Record<string, any> | null} */
    this.run = null;
    this._isOpen = false;
    /** @type {Entry[] | null} */
    this._entries = null;
    this._error = "";
  }

  /** A finished run does not change. */
  feedChanged() {}

  /** @param {Event} event */
  _toggled(event) {
    this._isOpen = /** @type {HTMLDetailsElement} */ (event.target).open;
    if (this._isOpen && this._entries === null) void this._load();
  }

  async _load() {
    const run = this.run;
    if (!run || !this.feed) return;
    try {
      const path = at`workspaces/${this.feed.workspaceId}/runs/${run["key"]}/steps`;
      const [catalogue, steps] = await Promise.all([import("../tools/catalogue.js"), get(path)]);
      this._kindOf = catalogue.kindOf;
      this._entries = steps.items;
    } catch (error) {
      this._error = error instanceof ApiError ? error.message : String(error);
      this._entries = [];
    }
  }

  render() {
    const run = this.run;
    if (!run) return nothing;
    const { accepted_at: accepted, started_at: started, finished_at: ended, usage = {} } = run;
    const facts = [
      ended ? duration(Math.max(ended - (started ?? accepted), 0)) : "",
      usage.requests ? t("timeline.requests", { n: usage.requests }) : "",
      usage.prompt_tokens ? t("timeline.tokens", { in: short(usage.prompt_tokens), out: short(usage.completion_tokens ?? 0) }) : "",
      usage.cost ? money(usage.cost) : "",
    ].filter(Boolean);
    return html`<details class="timeline" @toggle=${this._toggled}>
      <summary>${icon("history")}<span>${facts.join(" · ") || t("timeline.title")}</span></summary>
      ${this._isOpen ? this._content() : nothing}
    </details>`;
  }

  _content() {
    const entries = this._entries;
    if (entries === null) return html`<p class="quiet small" role="status">${t("state.loading")}</p>`;
    if (entries.length === 0) return html`<p class="quiet small">${this._error || t("timeline.empty")}</p>`;
    const start = Math.min(...entries.map((entry) => entry["started_at"]));
    const end = Math.max(start + 0.001, ...entries.map((entry) => entry["ended_at"] ?? entry["started_at"]));
    return html`<div class="timeline-scroll" tabindex="0" role="group" aria-label=${t("timeline.title")}><table class="timeline-table">
      <thead><tr>
        <th scope="col">${t("timeline.what")}</th><th scope="col">${t("timeline.time")}</th>
        <th scope="col" class="timeline-course"><span class="hidden-text">${t("timeline.course")}</span></th>
        <th scope="col">${t("timeline.token_column")}</th><th scope="col">${t("timeline.cost")}</th>
      </tr></thead>
      <tbody>${entries.map((entry) => this._row(entry, start, end))}</tbody>
    </table></div>`;
  }

  /** @param {Entry} entry @param {number} start @param {number} end */
  _row(entry, start, end) {
    const { kind, name = "", started_at: from, ended_at: to, prompt_tokens: asked, completion_tokens: given, cost, attempts, author } = entry;
    const look = Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
    const call = kind === "call" || kind === "approval" ? this._kindOf?.(String(name)) : null;
    const words = [look ? t(look.words) : visible(String(kind)), call ? call.title : visible(String(name)), author?.name ? visible(String(author.name)) : ""];
    const x = ((from - start) / (end - start)) * 100;
    const width = Math.max((((to ?? end) - from) / (end - start)) * 100, 0.8);
    return html`<tr>
      <th scope="row" title=${moment(from)}>
        ${icon(call && kind === "call" ? call.icon : look?.icon ?? "circle")}<span>${words.filter(Boolean).join(" · ")}</span>
        ${attempts > 1 ? html`<span class="quiet">${t("timeline.attempts", { n: attempts })}</span>` : nothing}
        ${entry["outcome"] === "error" || entry["outcome"] === "failed" ? html`<span class="wrong">${t("tool.state_failed")}</span>` : nothing}
      </th>
      <td>${to === null ? t("timeline.goes_on") : duration(Math.max(to - from, 0))}</td>
      <td class="timeline-course"><svg class="timeline-bar" aria-hidden="true" viewBox="0 0 100 8" preserveAspectRatio="none">
        <rect class=${look?.tone ?? ""} x=${Math.min(x, 99.2)} y="0" width=${width} height="8" rx="1"></rect></svg></td>
      <td>${asked || given ? t("timeline.tokens", { in: short(asked ?? 0), out: short(given ?? 0) }) : nothing}</td>
      <td>${cost ? money(cost) : nothing}</td>
    </tr>`;
  }
}

customElements.define("c-run-timeline", RunTimeline);
