// Code: highlighted when its block is complete, with a button that copies it.

import { t } from "../core/strings.js";

const MOST_HIGHLIGHTED = 60_000; // characters; more takes longer than a frame

/** @type {Promise<[any, {sanitize: (unsafe: string) => DocumentFragment}]> | null} */
let loading = null;

/** The library and the sanitiser, loaded with the first code. */
function library() {
  loading ??= Promise.all([import("../vendor/highlight.js"), import("../core/sanitize.js")]);
  return loading;
}

/**
 * Highlighted code as nodes; null if the language is unknown or the code too long.
 * @param {string} code @param {string} language a name, or the end of a file's name
 * @returns {Promise<DocumentFragment | null>}
 */
export async function highlighted(code, language) {
  if (!language || code.length > MOST_HIGHLIGHTED) return null;
  const [{ default: hljs }, { sanitize }] = await library();
  if (!hljs.getLanguage(language)) return null;
  return sanitize(hljs.highlight(code, { language, ignoreIllegals: true }).value);
}

/** The language of a file, by the end of its name. @param {string} path */
export function languageOf(path) {
  const name = path.split("/").pop() ?? "";
  if (/^(?:dockerfile|containerfile)/i.test(name)) return "dockerfile";
  return name.includes(".") ? (name.split(".").pop() ?? "").toLowerCase() : "";
}

/** Adds highlighting and the button to the code blocks below a node. @param {ParentNode} root */
export function finishCode(root) {
  for (const block of root.querySelectorAll("pre > code")) {
    const pre = /** @type {HTMLElement} */ (block.parentElement);
    if (pre.parentElement?.classList.contains("code-block")) continue;
    // Whoever uses a keyboard must be able to scroll it.
    pre.tabIndex = 0;
    const frame = document.createElement("div");
    frame.className = "code-block";
    pre.replaceWith(frame);
    frame.append(pre, copyButton(() => block.textContent ?? ""));
    const language = /\blanguage-([\w+#.-]+)/.exec(block.className)?.[1] ?? "";
    void highlighted(block.textContent ?? "", language.toLowerCase()).then((nodes) => {
      if (nodes) block.replaceChildren(nodes);
    });
  }
}

/** @param {() => string} text */
export function copyButton(text) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy-button";
  button.textContent = t("action.copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text());
    button.textContent = t("action.copied");
    setTimeout(() => (button.textContent = t("action.copy")), 1500);
  });
  return button;
}
