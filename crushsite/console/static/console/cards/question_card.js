// The questions of one tool call, answered together as one form.

import { html, nothing } from "../vendor/lit.js";
import { t } from "../core/strings.js";
import { answerQuestions, detailOf, dismissQuestions } from "./answering.js";
import { RequestCard } from "./request_card.js";

/** @typedef {{id: string, type: string, question: string, label?: string, description?: string, choices?: {id: string, label: string, description?: string}[]}} Question */

const OTHER = "\0other"; // no choice of a model has this id

class QuestionCard extends RequestCard {
  static properties = { ...RequestCard.properties, _fault: { state: true }, _past: { state: true } };

  constructor() {
    super();
    this._fault = "";
    /** The batch with its answers, after somebody answered. @type {Record<string, any> | null} */
    this._past = null;
  }

  /** @returns {Question[]} */
  get questions() {
    return this.item?.data["questions"] ?? [];
  }

  /** One question of yes or no: its buttons are the answers. */
  get _isYesNo() {
    return this.questions.length === 1 && this.questions[0]?.type === "yes_no";
  }

  keys() {
    if (!this._isYesNo) return [];
    return [
      { key: "y", label: /** @type {const} */ ("questions.yes"), run: () => this._sendYesNo(true) },
      { key: "n", label: /** @type {const} */ ("questions.no"), run: () => this._sendYesNo(false) },
    ];
  }

  updated() {
    super.updated();
    const { item } = this;
    if (item && this.resolution?.["state"] === "answered" && this._past === null) {
      this._past = item.data["responses"]?.length ? item.data : {};
      if (!item.data["responses"]?.length) detailOf(item).then((found) => (this._past = found), () => {});
    }
  }

  get _form() {
    return /** @type {HTMLFormElement} */ (this.querySelector("form"));
  }

  /** @param {Record<string, any>[]} responses */
  _send(responses) {
    const { item } = this;
    if (item && this.canAnswer) void this.answer(() => answerQuestions(item, responses));
  }

  /** @param {boolean} yes */
  _sendYesNo(yes) {
    const [question] = this.questions;
    if (question) this._send([{ request_id: question.id, yes, ...notes(new FormData(this._form), question) }]);
  }

  /** @param {Event} event */
  _submit(event) {
    event.preventDefault();
    const values = new FormData(this._form);
    const responses = this.questions.map((each) => responseTo(each, values));
    const missing = this.questions.find((_, index) => responses[index] === null);
    this._fault = missing ? t("questions.missing", { question: missing.question }) : "";
    if (missing) {
      const index = this.questions.indexOf(missing);
      /** @type {HTMLElement | null} */ (this._form.querySelector(`[data-question="${index}"] :is(input, textarea)`))?.focus();
      return;
    }
    this._send(/** @type {Record<string, any>[]} */ (responses));
  }

  _dismiss() {
    const { item } = this;
    if (item && this.canAnswer) void this.answer(() => dismissQuestions(item));
  }

  render() {
    const { item } = this;
    if (item === null) return nothing;
    const form = `questions-${item.id}`;
    return this.frame(
      html`${item.data["confirm_title"] ? html`<p class="label">${item.data["confirm_title"]}</p>` : nothing}
        ${item.data["confirm_description"] ? html`<p class="quiet">${item.data["confirm_description"]}</p>` : nothing}
        <form id=${form} class="request-form" @submit=${this._submit}>
          ${this.questions.map((each, index) => this._question(each, index))}
          ${this._fault ? html`<p class="wrong" role="alert">${this._fault}</p>` : this.error()}
        </form>`,
      html`<div class="request-buttons main">
        ${this._isYesNo
          ? html`<button class="button primary" type="button" ?disabled=${!this._isArmed} aria-keyshortcuts=${this.hasKeys ? "y" : nothing} @click=${() => this._sendYesNo(true)}>${t("questions.yes")}${this.keyHint("y")}</button>
              <button class="button" type="button" ?disabled=${!this._isArmed} aria-keyshortcuts=${this.hasKeys ? "n" : nothing} @click=${() => this._sendYesNo(false)}>${t("questions.no")}${this.keyHint("n")}</button>`
          : html`<button class="button primary" form=${form} ?disabled=${!this._isArmed}>${t("questions.send")}</button>`}
        <button class="button" type="button" ?disabled=${!this._isArmed} @click=${() => this._dismiss()}>${t("questions.dismiss")}</button>
      </div>`,
    );
  }

  /** @param {Question} question @param {number} index */
  _question(question, index) {
    return html`<fieldset class="question" data-question=${index}>
      <legend>${question.label ? html`<span class="badge">${question.label}</span> ` : nothing}${question.question}</legend>
      ${question.description ? html`<p class="quiet small">${question.description}</p>` : nothing}
      ${this._answers(question)}
      ${question.type === "free_text"
        ? nothing
        : html`<details class="note"><summary class="small">${t("questions.add_note")}</summary>
            <textarea class="input" name="notes ${question.id}" rows="1" aria-label=${t("questions.notes")}></textarea></details>`}
    </fieldset>`;
  }

  /** @param {Question} question */
  _answers(question) {
    const name = `choice ${question.id}`;
    if (question.type === "free_text") {
      return html`<textarea class="input" name="text ${question.id}" rows="2" aria-label=${t("questions.words")}></textarea>`;
    }
    if (question.type === "yes_no") {
      if (this._isYesNo) return nothing;
      return html`<div class="choices">
        ${(/** @type {const} */ (["yes", "no"])).map((each) => html`<label class="choice"><input type="radio" name=${name} value=${each} /><span>${t(`questions.${each}`)}</span></label>`)}
      </div>`;
    }
    const kind = question.type === "multi_choice" ? "checkbox" : "radio";
    return html`${kind === "checkbox" ? html`<p class="quiet small">${t("questions.several")}</p>` : nothing}
      <div class="choices">
        ${(question.choices ?? []).map((each) => html`<label class="choice"><input type=${kind} name=${name} value=${each.id} />
          <span>${each.label}${each.description ? html`<span class="help">${each.description}</span>` : nothing}</span></label>`)}
        <div class="choice"><input type=${kind} name=${name} value=${OTHER} aria-label=${t("questions.other")} />
          <input class="input" name="text ${question.id}" placeholder=${t("questions.other")} aria-label=${`${t("questions.other")}: ${t("questions.words")}`}
            @input=${(/** @type {any} */ event) => {
              event.target.previousElementSibling.checked = event.target.value !== "";
            }} /></div>
      </div>`;
  }

  endDetails() {
    const responses = this._past?.["responses"] ?? [];
    if (responses.length === 0) return nothing;
    return html`<dl class="request-values">
      ${this.questions.map((each) => {
        const found = responses.find((/** @type {any} */ one) => one.request_id === each.id);
        return found ? html`<dt>${each.question}</dt><dd>${answerIn(each, found)}</dd>` : nothing;
      })}
    </dl>`;
  }
}

/** The answer in the form, or null without one. @param {Question} question @param {FormData} values */
function responseTo(question, values) {
  const chosen = values.getAll(`choice ${question.id}`).map(String);
  const text = String(values.get(`text ${question.id}`) ?? "").trim();
  const response = { request_id: question.id, ...notes(values, question) };
  if (question.type === "yes_no") return chosen.length === 0 ? null : { ...response, yes: chosen[0] === "yes" };
  if (question.type === "free_text") return text ? { ...response, fill_in_text: text } : null;
  const ids = chosen.filter((each) => each !== OTHER);
  const words = chosen.includes(OTHER) && text ? { fill_in_text: text } : {};
  if (ids.length === 0 && !("fill_in_text" in words)) return null;
  return { ...response, selected_ids: ids, ...words };
}

/** @param {FormData} values @param {Question} question */
function notes(values, question) {
  const words = String(values.get(`notes ${question.id}`) ?? "").trim();
  return words ? { notes: words } : {};
}

/** @param {Question} question @param {Record<string, any>} response */
function answerIn(question, response) {
  const labels = (response["selected_ids"] ?? []).map((/** @type {string} */ id) => question.choices?.find((each) => each.id === id)?.label ?? id);
  const yes = typeof response["yes"] === "boolean" && question.type === "yes_no" ? [t(response["yes"] ? "questions.yes" : "questions.no")] : [];
  return [...yes, ...labels, response["fill_in_text"], response["notes"]].filter(Boolean).join(" · ");
}

customElements.define("c-question-card", QuestionCard);
