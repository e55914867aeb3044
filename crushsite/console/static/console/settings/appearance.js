// The theme.

import { html } from "../vendor/lit.js";
import { t } from "../core/strings.js";
import { setTheme, theme } from "../core/theme.js";
import { SettingsSection } from "./section.js";

const THEMES = /** @type {const} */ (["system", "light", "dark"]);

class AppearanceSettings extends SettingsSection {
  content() {
    return html`<fieldset class="segments">
      <legend class="label">${t("theme.label")}</legend>
      <div class="segments-row">
        ${THEMES.map(
          (each) => html`<label class="segment">
            <input type="radio" name="theme" value=${each} .checked=${theme() === each} @change=${() => setTheme(each)} />
            <span>${t(`theme.${each}`)}</span>
          </label>`,
        )}
      </div>
    </fieldset>`;
  }
}

customElements.define("c-settings-appearance", AppearanceSettings);
