// The keys of the frame: the command palette and the help. Both load when they are first opened. They do
// not import this module: names of files cannot have hashes of each other.

import { registerKeys } from "../core/keys.js";
import { t } from "../core/strings.js";

export const PALETTE_KEY = "mod+k";

/** @param {string} name of an element that can be opened @param {() => Promise<unknown>} load */
async function open(name, load) {
  // Without an await once it is loaded: letters that are typed directly after the key belong to it.
  if (!customElements.get(name)) await load();
  const found = /** @type {any} */ (document.querySelector(name) ?? document.body.appendChild(document.createElement(name)));
  void found.open(PALETTE_KEY);
}

export const openPalette = () => void open("c-palette", () => import("./palette.js"));
export const openKeyHelp = () => void open("c-key-help", () => import("./key_help.js"));

export const watchFrameKeys = () =>
  registerKeys([
    { key: PALETTE_KEY, label: t("palette.title"), inFields: true, run: () => openPalette() },
    { key: "?", label: t("keys.help"), run: () => openKeyHelp() },
  ]);
