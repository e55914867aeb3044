// Text that a program has written: with its colours, or as it is. Of a long one a part is shown.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { bytes } from "../core/format.js";
import { t } from "../core/strings.js";
import { cut, visible } from "../text/visible.js";
import { ansiNodes } from "./ansi.js";

const MOST = 20_000; // characters at first
const NEAR_END = 24; // pixels

/** Properties: `text`; `label` for screen readers; `isPlain` without colours; `fromEnd`: its end matters more. */
class Terminal extends PageElement {
  static properties = {
    text: { attribute: false },
    label: { attribute: false },
    isPlain: { attribute: false },
    fromEnd: { attribute: false },
    _isWhole: { state: true },
  };

  constructor() {
    super();
    this.text = "";
    this.label = "";
    this.isPlain = false;
    this.fromEnd = false;
    this._isWhole = false;
    this._isAtEnd = true;
    /** @type {string | null} */
    this._drawn = null;
  }

  render() {
    const isCut = !this._isWhole && this.text.length > MOST;
    const more = isCut
      ? html`<button class="link small" @click=${() => (this._isWhole = true)}>${t("tool.show_all", { size: bytes(this.text.length) })}</button>`
      : nothing;
    return html`${this.fromEnd ? more : nothing}
      <pre class="terminal" tabindex="0" role="group" aria-label=${this.label || t("tool.output")} @scroll=${this._scrolled}></pre>
      ${this.fromEnd ? nothing : more}`;
  }

  _scrolled() {
    const block = this.querySelector("pre");
    if (block) this._isAtEnd = block.scrollHeight - block.scrollTop - block.clientHeight < NEAR_END;
  }

  updated() {
    const shown = this._isWhole ? this.text : cut(this.text, MOST, { fromEnd: this.fromEnd });
    const block = this.querySelector("pre");
    if (!block || shown === this._drawn) return;
    this._drawn = shown;
    block.replaceChildren(this.isPlain ? visible(shown) : ansiNodes(shown));
    if (this.fromEnd && this._isAtEnd) block.scrollTop = block.scrollHeight;
  }
}

customElements.define("c-terminal", Terminal);
