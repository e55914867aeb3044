// Markdown by a model. While it streams, only its last block is rendered again: the blocks before it
// keep their nodes, and with them the reader's selection. At the end it is as if it had come at once.

import { Lexer, Marked } from "../vendor/marked.js";
import { PageElement } from "../core/element.js";
import { finishCode } from "./code.js";
import { nodesOf } from "./markdown_nodes.js";

const options = { ...new Marked({ gfm: true, breaks: false, async: false }).defaults };

/**
 * The blocks of a text: their sources, which together are the text.
 * @param {string} text
 */
export function blocksOf(text) {
  return new Lexer(options).lex(text);
}

/** Properties: `text`, and `isOpen` while more of it comes. */
class Markdown extends PageElement {
  static properties = { text: { attribute: false }, isOpen: { attribute: false } };

  constructor() {
    super();
    this.text = "";
    this.isOpen = false;
    /** The text of the blocks that are complete, and each of them. */
    this._settled = "";
    /** @type {string[]} */
    this._blocks = [];
    /** The nodes of the last block, and its text. @type {ChildNode[]} */
    this._tail = [];
    this._shownTail = "";
  }

  createRenderRoot() {
    this.classList.add("markdown");
    return this;
  }

  render() {
    return undefined;
  }

  /** @param {Map<string, unknown>} changed */
  update(changed) {
    super.update(changed);
    // As the lexer does it. A text that ends between the two characters stays the beginning of the next.
    const text = this.text.replace(/\r\n?/g, "\n");
    if (!text.startsWith(this._settled)) this._reset();
    if (!this.isOpen && this._blocks.length > 0 && this._differs(text)) this._reset();
    this._renderRest(text.slice(this._settled.length));
  }

  _reset() {
    this.replaceChildren();
    this._settled = "";
    this._blocks = [];
    this._tail = [];
    this._shownTail = "";
  }

  /** Whether the whole text has other blocks than its parts had, or references to later lines. @param {string} text */
  _differs(text) {
    const tokens = blocksOf(text);
    return Object.keys(tokens.links).length > 0 || this._blocks.some((raw, index) => tokens[index]?.raw !== raw);
  }

  /** @param {string} rest */
  _renderRest(rest) {
    if (this.isOpen && (rest === this._shownTail || this._growCode(rest))) return;
    const tokens = blocksOf(rest);
    // The last block may still grow, and a blank line before it may yet belong to a list.
    const last = this.isOpen ? lastBlock(tokens) : tokens.length;
    const settled = tokens.slice(0, last);
    const open = tokens.slice(last);
    for (const node of this._tail) node.remove();
    if (settled.length > 0) {
      const nodes = nodesOf(settled);
      finishCode(nodes);
      this.append(nodes);
      this._blocks.push(...settled.map((token) => token.raw));
      this._settled += settled.map((token) => token.raw).join("");
    }
    const tail = nodesOf(open);
    this._tail = [...tail.childNodes];
    this._shownTail = open.map((token) => token.raw).join("");
    this.append(tail);
  }

  /**
   * Long code, which is one block until its end, is not read again for each word.
   * @param {string} rest
   */
  _growCode(rest) {
    const added = rest.startsWith(this._shownTail) ? rest.slice(this._shownTail.length) : null;
    const start = this._shownTail.indexOf("\n") + 1;
    if (added === null || start === 0 || /[`~]/.test(added) || !/^(?:```|~~~)/.test(rest)) return false;
    // A fence that is closed already: what follows is another block.
    if (/\n {0,3}(?:`{3,}|~{3,})[ \t]*\n?$/.test(this._shownTail)) return false;
    const code = this._tail.length > 0 ? /** @type {Element} */ (this._tail[0]).firstElementChild : null;
    if (this._tail.some((node) => node instanceof Text && node.data.trim()) || code?.localName !== "code") return false;
    code.textContent = rest.slice(start);
    this._shownTail = rest;
    return true;
  }
}

/** The index of the last block with content. @param {any[]} tokens */
function lastBlock(tokens) {
  let index = tokens.length - 1;
  while (index > 0 && tokens[index].type === "space") index--;
  return Math.max(index, 0);
}

customElements.define("c-markdown", Markdown);
