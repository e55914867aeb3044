// The place to which the session was rewound, while the rewind can be undone.

import { html, nothing } from "../vendor/lit.js";
import { announce } from "../core/announce.js";
import { at, get, post } from "../core/api.js";
import { PageElement } from "../core/element.js";
import { iso, moment, when } from "../core/format.js";
import { icon } from "../core/icons.js";
import { rightsIn } from "../core/rights.js";
import { t } from "../core/strings.js";
import { attempt } from "../core/toasts.js";
import { visible } from "../text/visible.js";

const NEWEST = 20;

class Rewound extends PageElement {
  static properties = { feed: { attribute: false }, _rewind: { state: true }, _can: { state: true } };

  constructor() {
    super();
    /** @type {SessionFeed | null} */
    this.feed = null;
    /** The rewind that can be undone. @type {Schemas["Rewind"] | null} */
    this._rewind = null;
    this._can = new Set();
    this._asked = 0;
  }

  connectedCallback() {
    super.connectedCallback();
    const feed = this.feed;
    if (!feed) return;
    this._leave = feed.subscribe((changes) => {
      // A new message ends the possibility; another rewind gives the page a new state.
      if (changes.has("all") || (this._rewind && changes.has("messages"))) void this._look();
    });
    rightsIn(feed.workspaceId).then((can) => (this._can = can), () => {});
    if (feed.state) void this._look();
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this._leave?.();
  }

  get _path() {
    return at`workspaces/${this.feed?.workspaceId ?? ""}/sessions/${this.feed?.sessionId ?? ""}/rewinds`;
  }

  async _look() {
    const asked = ++this._asked;
    // Without the list there is no line; the dialog of the rewind can still undo it.
    const found = await get(`${this._path}?limit=${NEWEST}`).catch(() => ({ items: [] }));
    if (asked !== this._asked) return;
    this._rewind = found.items.find((/** @type {Schemas["Rewind"]} */ each) => each.can_undo) ?? null;
  }

  async _undo() {
    const id = this._rewind?.id ?? "";
    const undone = await attempt(() => post(`${this._path}/${encodeURIComponent(id)}/undo`));
    if (undone) announce(t("rewind.undone"));
    await this._look();
  }

  render() {
    const rewind = this._rewind;
    if (!rewind) return nothing;
    const name = rewind.author?.name;
    return html`<div class="rewound" role="group" aria-label=${t("rewound.label")}>
      ${icon("rewind")}
      <span>${name ? t("rewound.line_by", { name: visible(name) }) : t("rewound.line")}
        <time datetime=${iso(rewind.created_at)} title=${moment(rewind.created_at)}>${when(rewind.created_at)}</time></span>
      ${this._can.has("cancel") ? html`<button class="button" @click=${() => void this._undo()}>${t("rewound.undo")}</button>` : nothing}
    </div>`;
  }
}

customElements.define("c-rewound", Rewound);
