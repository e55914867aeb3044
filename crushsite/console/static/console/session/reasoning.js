// What a model thought before its reply: folded, with the time that it took.

import { html } from "../vendor/lit.js";
import { duration } from "../core/format.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { visible } from "../text/visible.js";

/** @param {OpenPart} part @param {boolean} isOpen while more of it comes */
export function reasoning(part, isOpen) {
  const { started_at: start, finished_at: end } = part.data;
  const words = isOpen
    ? t("reasoning.now")
    : start && end >= start ? t("reasoning.lasted", { time: end > start ? duration(end - start) : t("reasoning.less") }) : t("reasoning.done");
  return html`<details class="reasoning">
    <summary>${icon("brain")}<span>${words}</span></summary>
    <div class="plain">${visible(part.text)}</div>
  </details>`;
}
