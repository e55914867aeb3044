// Files and images of a prompt.

import { html, nothing } from "../vendor/lit.js";
import { bytes, nameOf } from "../core/format.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";
import { visible } from "../text/visible.js";
import { isPicture } from "../tools/picture.js";
import { link } from "../text/link.js";

/** @param {OpenPart} part */
export function attachment(part) {
  if (part.type === "image_url") return html`<p class="attached-file">${icon("image")}${link(String(part.data["url"] ?? ""), t("message.image"))}</p>`;
  const { Path: path = "", MIMEType: type = "", Data: data = "" } = part.data;
  const name = visible(nameOf(path) || t("message.file"));
  const size = Math.floor((data.length * 3) / 4);
  return html`<figure class="attached-file">
    ${isPicture(type) ? html`<c-picture .data=${data} .type=${type} .label=${name}></c-picture>` : nothing}
    <figcaption>${icon(isPicture(type) ? "image" : "paperclip")}<span class="cut">${name}</span>${size ? html`<span class="quiet">${bytes(size)}</span>` : nothing}</figcaption>
  </figure>`;
}
