// Dark or light: as the system has it, unless the person chose one.

const KEY = "crush-theme";

/** @typedef {"system" | "light" | "dark"} Theme */

/** @returns {Theme} */
export function theme() {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

/** @param {Theme} chosen */
export function setTheme(chosen) {
  if (chosen === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, chosen);
  applyTheme();
}

export function applyTheme() {
  const chosen = theme();
  if (chosen === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = chosen;
}

/** Other tabs follow. */
export function watchTheme() {
  addEventListener("storage", (event) => {
    if (event.key === KEY) applyTheme();
  });
  applyTheme();
}
