// The time since something began, or until something begins, which goes on by itself.

import { PageElement } from "../core/element.js";
import { duration } from "../core/format.js";

/** One timer for all, so that a page with many of them wakes up once a second. @type {Set<Elapsed>} */
const shown = new Set();
/** @type {ReturnType<typeof setInterval> | undefined} */
let timer;

/** Properties: `since`, unix seconds; or `until`. */
class Elapsed extends PageElement {
  static properties = { since: { attribute: false }, until: { attribute: false } };

  constructor() {
    super();
    this.since = 0;
    this.until = 0;
  }

  connectedCallback() {
    super.connectedCallback();
    shown.add(this);
    timer ??= setInterval(() => shown.forEach((each) => each.requestUpdate()), 1000);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    shown.delete(this);
    if (shown.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  render() {
    const now = Date.now() / 1000;
    if (this.until) return duration(Math.max(0, Math.ceil(this.until - now)));
    return duration(Math.max(0, Math.floor(now - this.since)));
  }
}

customElements.define("c-elapsed", Elapsed);
