// A part of a file with the numbers of its lines.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { count } from "../core/format.js";
import { t } from "../core/strings.js";
import { copyButton, highlighted, languageOf } from "../text/code.js";
import { visible } from "../text/visible.js";

const MOST_LINES = 400;
const LONGEST = 2000; // characters of a line

/** Properties: `text`, the `path` that names its language, `first` line's number, `isOpen` while it grows. */
class CodeView extends PageElement {
  static properties = {
    text: { attribute: false },
    path: { attribute: false },
    first: { attribute: false },
    isOpen: { attribute: false },
    _isWhole: { state: true },
  };

  constructor() {
    super();
    this.text = "";
    this.path = "";
    this.first = 1;
    this.isOpen = false;
    this._isWhole = false;
    this._drawn = "";
    this._button = copyButton(() => this.text);
  }

  render() {
    const lines = this._lines();
    const rest = this.text.split("\n").length - lines.length;
    const numbers = lines.map((_, index) => this.first + index).join("\n");
    return html`<div class="code-block">
        <div class="code numbered" tabindex="0" role="group" aria-label=${t("tool.file_content", { path: visible(this.path) })}>
          <pre class="line-numbers" aria-hidden="true">${numbers}</pre>
          <pre class="code-text"></pre>
        </div>
        ${this._button}
      </div>
      ${rest > 0
        ? html`<button class="link small" @click=${() => (this._isWhole = true)}>${t("tool.show_more", { n: count(rest) })}</button>`
        : nothing}`;
  }

  _lines() {
    const lines = this.text.replace(/\n$/, "").split("\n");
    return this._isWhole ? lines : lines.slice(0, MOST_LINES);
  }

  updated() {
    const text = this._lines()
      .map((line) => visible(this._isWhole ? line : line.slice(0, LONGEST)))
      .join("\n");
    const block = this.querySelector(".code-text");
    if (!block || (text === this._drawn && block.firstChild)) return;
    this._drawn = text;
    block.textContent = text;
    if (this.isOpen) return;
    void highlighted(text, languageOf(this.path)).then((nodes) => {
      if (nodes && this._drawn === text) block.replaceChildren(nodes);
    });
  }
}

customElements.define("c-code-view", CodeView);
