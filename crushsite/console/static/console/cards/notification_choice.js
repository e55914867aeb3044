// What one channel, or this browser, is notified about.

import { html, nothing } from "../vendor/lit.js";
import { PageElement } from "../core/element.js";
import { t } from "../core/strings.js";
import { notifyError } from "../core/toasts.js";

/** @typedef {{notify_waiting: boolean, notify_ended: string}} Wanted as in the REST interface */

const ENDS = /** @type {const} */ (["own", "all", "none"]);

/** The choice of ends, also for forms. @param {string} chosen @param {string} [id] @param {(event: any) => void} [change] */
export const endsSelect = (chosen, id, change) => html`<select class="input" name="notify_ended" id=${id ?? nothing} @change=${change ?? nothing}>
  ${ENDS.map((each) => html`<option value=${each} ?selected=${each === chosen} .selected=${each === chosen}>${t(`notify.ends.${each}`)}</option>`)}
</select>`;

class NotificationChoice extends PageElement {
  static properties = { wanted: { attribute: false }, about: { attribute: false }, save: { attribute: false } };

  constructor() {
    super();
    /** @type {Wanted} */
    this.wanted = { notify_waiting: true, notify_ended: "own" };
    /** Whose choice it is, for screen readers. */
    this.about = "";
    /** Stores a change; the owner then sets `wanted`. @type {(change: Partial<Wanted>) => Promise<unknown>} */
    this.save = () => Promise.resolve();
  }

  /** @param {Partial<Wanted>} change */
  async _change(change) {
    const { notify_waiting, notify_ended } = { ...this.wanted, ...change };
    if (!notify_waiting && notify_ended === "none") notifyError(new Error(t("notify.nothing")));
    else await this.save(change);
    // A change that was refused leaves the controls as they were.
    const box = this.querySelector("input");
    const select = this.querySelector("select");
    if (box) box.checked = this.wanted.notify_waiting;
    if (select) select.value = this.wanted.notify_ended;
  }

  render() {
    const { notify_waiting: waits, notify_ended: ends } = this.wanted;
    return html`<fieldset class="notification-choice">
      <legend class="hidden-text">${t("notify.choice", { name: this.about })}</legend>
      <label class="check"><input type="checkbox" .checked=${waits} @change=${(/** @type {any} */ event) => void this._change({ notify_waiting: event.target.checked })} />${t("notify.waiting")}</label>
      <label class="notification-ends">${t("notify.ends")}${endsSelect(ends, undefined, (event) => void this._change({ notify_ended: event.target.value }))}</label>
    </fieldset>`;
  }
}

customElements.define("c-notification-choice", NotificationChoice);
