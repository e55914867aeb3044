// What a person chooses for this browser: the theme, and the shortcuts of a single character.

import { html } from "../vendor/lit.js";
import { hasLetterKeys, setLetterKeys, watchLetterKeys } from "../core/keys.js";
import { t } from "../core/strings.js";
import { setTheme, theme } from "../core/theme.js";
import { SettingsSection } from "./section.js";

const THEMES = /** @type {const} */ (["system", "light", "dark"]);

class AppearanceSettings extends SettingsSection {
  connectedCallback() {
    super.connectedCallback();
    this._leave = watchLetterKeys(() => this.requestUpdate());
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._leave?.();
  }

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
      </fieldset>
      <section class="settings-part">
        <h3>${t("settings.keyboard")}</h3>
        <label class="check"><input type="checkbox" role="switch" aria-describedby="letters-help" .checked=${hasLetterKeys()}
          @change=${(/** @type {any} */ event) => setLetterKeys(event.target.checked)} /> ${t("settings.keyboard.letters")}</label>
        <p class="quiet small" id="letters-help">${t("settings.keyboard.letters_help")}</p>
      </section>`;
  }
}

customElements.define("c-settings-appearance", AppearanceSettings);
