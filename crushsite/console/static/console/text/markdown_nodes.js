// Blocks of Markdown as nodes. Each node is made here with a fixed name, and text stays text: no HTML
// is parsed, which is safe, and several times faster than to write, parse and sanitise it.

import { t } from "../core/strings.js";
import { decoded } from "../core/trusted_types.js";

/** @typedef {any} Token of marked's lexer */

// Tags without attributes that models use for text. Other HTML is shown as text.
const SIMPLE = /^<(\/?)(b|br|del|em|i|kbd|s|strong|sub|sup)\s*\/?>$/i;
const OPENED = /^(?:https?|mailto):/i;
const DEEPEST = 40; // levels; what is nested deeper is shown as it was written

/** @param {Token[]} tokens */
export function nodesOf(tokens) {
  const nodes = document.createDocumentFragment();
  addBlocks(nodes, tokens, 0);
  return nodes;
}

/** @param {string} name @param {(Node | string)[]} content */
function make(name, ...content) {
  const element = document.createElement(name);
  element.append(...content);
  return element;
}

/** @param {Node & ParentNode} parent @param {Token[]} tokens @param {number} depth */
function addBlocks(parent, tokens, depth) {
  tokens.forEach((token, index) => {
    const node = depth > DEEPEST ? make("p", token.raw) : block(token, depth + 1);
    if (node !== null) parent.append(node, "\n");
    else if (token.type === "text" || token.type === "checkbox") {
      addInline(parent, token.tokens ?? [token], depth + 1);
      if (tokens[index + 1]?.type === "text" && token.type === "text") parent.append("\n");
    }
  });
}

/** @param {Token} token @param {number} depth @returns {Element | null} null: it is inline, or nothing */
function block(token, depth) {
  switch (token.type) {
    case "paragraph":
      return filled(make("p"), token.tokens, depth);
    case "heading":
      return filled(make(`h${token.depth}`), token.tokens, depth);
    case "blockquote": {
      const quote = make("blockquote");
      addBlocks(quote, token.tokens, depth);
      return quote;
    }
    case "list":
      return list(token, depth);
    case "code":
      return code(token);
    case "table":
      return table(token, depth);
    case "hr":
      return make("hr");
    case "html":
      return rawBlock(token.text.trim());
    default:
      return null;
  }
}

/** @param {Token} token @param {number} depth */
function list(token, depth) {
  const made = make(token.ordered ? "ol" : "ul");
  if (token.ordered && token.start !== 1) made.setAttribute("start", String(Number(token.start)));
  for (const item of token.items) {
    const row = make("li");
    addBlocks(row, item.tokens, depth);
    made.append(row, "\n");
  }
  return made;
}

/** @param {Token} token */
function code(token) {
  const made = make("code", token.text ? `${token.text.replace(/\n$/, "")}\n` : "");
  const language = /^[\w+#.-]+/.exec(token.lang ?? "")?.[0];
  if (language) made.className = `language-${language}`;
  return make("pre", made);
}

/** @param {Token} token @param {number} depth */
function table(token, depth) {
  /** @param {Token[]} cells @param {string} name */
  const row = (cells, name) => {
    const made = make("tr");
    for (const cell of cells) {
      const one = filled(make(name), cell.tokens, depth);
      if (/^(?:left|right|center)$/.test(cell.align)) one.setAttribute("align", cell.align);
      made.append(one, "\n");
    }
    return made;
  };
  const made = make("table", make("thead", row(token.header, "th")), "\n");
  if (token.rows.length > 0) {
    const rows = token.rows.flatMap((/** @type {Token[]} */ cells) => [row(cells, "td"), "\n"]);
    made.append(make("tbody", ...rows));
  }
  return made;
}

/** @param {string} text */
function rawBlock(text) {
  const tag = SIMPLE.exec(text)?.[2]?.toLowerCase();
  if (tag) return tag === "br" ? make("br") : null;
  const lines = text.split("\n").flatMap((line) => [make("br"), line]);
  return make("p", ...lines.slice(1));
}

/** @param {HTMLElement} element @param {Token[]} tokens @param {number} depth */
function filled(element, tokens, depth) {
  addInline(element, tokens, depth);
  return element;
}

/** @param {Node & ParentNode} parent @param {Token[]} tokens @param {number} depth */
function addInline(parent, tokens, depth) {
  // The elements that tags have opened, which end with their parent at the latest.
  const open = [parent];
  for (const token of tokens) {
    const place = /** @type {Node & ParentNode} */ (open.at(-1));
    const tag = token.type === "html" ? SIMPLE.exec(token.text.trim()) : null;
    if (!tag) place.append(...inline(token, depth + 1));
    else if (tag[1]) closeTag(open, String(tag[2]).toLowerCase());
    else {
      const element = make(String(tag[2]).toLowerCase());
      place.append(element);
      if (element.localName !== "br" && open.length < DEEPEST) open.push(element);
    }
  }
}

/** @param {(Node & ParentNode)[]} open @param {string} name */
function closeTag(open, name) {
  const at = open.map((each) => /** @type {Element} */ (each).localName).lastIndexOf(name);
  if (at > 0) open.length = at;
}

/** @param {Token} token @param {number} depth @returns {(Node | string)[]} */
function inline(token, depth) {
  if (depth > DEEPEST) return [token.raw];
  switch (token.type) {
    case "strong":
    case "em":
    case "del":
      return [filled(make(token.type), token.tokens, depth)];
    case "codespan":
      return [make("code", token.text)];
    case "br":
      return [make("br")];
    case "checkbox":
      return [checkbox(token.checked), " "];
    case "link": {
      const text = filled(make("span"), token.autolink ? [{ type: "escape", text: token.text }] : token.tokens, depth);
      // An image in a link: a link in a link would be two.
      for (const inner of text.querySelectorAll("a")) inner.replaceWith(...inner.childNodes);
      return [link(token.href, [...text.childNodes], token.title)];
    }
    // Images of other sites would show them who reads this.
    case "image":
      return [link(token.href, [decoded(token.text || token.href)], null)];
    case "text":
    case "escape":
      return [decoded(token.text)];
    default:
      return [token.text ?? token.raw];
  }
}

/** @param {boolean} isChecked */
function checkbox(isChecked) {
  const box = document.createElement("input");
  box.type = "checkbox";
  box.disabled = true;
  box.toggleAttribute("checked", isChecked);
  box.setAttribute("aria-label", t(isChecked ? "text.task_done" : "text.task_open"));
  return box;
}

/** @param {string} address @param {(Node | string)[]} content @param {string | null | undefined} title */
function link(address, content, title) {
  const made = /** @type {HTMLAnchorElement} */ (make("a", ...content));
  const whole = decoded(address);
  if (OPENED.test(whole)) made.href = whole;
  made.target = "_blank";
  made.rel = "noopener noreferrer";
  if (title) made.title = decoded(title);
  return made;
}
