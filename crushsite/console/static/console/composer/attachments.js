// Files that go with a prompt: read, limited as the server limits them, and shown with a picture.

import { html, nothing } from "../vendor/lit.js";
import { bytes } from "../core/format.js";
import { icon } from "../core/icons.js";
import { t } from "../core/strings.js";

/** @typedef {{name: string, path: string, type: string, size: number, content: string, picture: string}} Attachment */

const MOST = 50;
const LARGEST = 15 * 1024 * 1024; // the server takes 20 Mi characters of base64
const LARGEST_SUM = 22 * 1024 * 1024; // and 32 MB in one request
const PICTURES = /^image\/(?:png|jpeg|gif|webp)$/; // what models take

/**
 * The type that the server needs. A browser knows none of most source files, and calls some of them
 * videos, so a file is text if its content is. Throws an error if a model could not read it.
 * @param {File} file
 */
async function typeOf(file) {
  if (PICTURES.test(file.type)) return file.type;
  let text = "\0";
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch (error) {
    if (!(error instanceof TypeError)) throw new Error(t("composer.unreadable", { name: file.name }));
  }
  if (text.includes("\0")) throw new Error(t("composer.refused_type", { name: file.name }));
  return file.type.startsWith("text/") ? file.type : "text/plain";
}

/**
 * Reads files. Throws an error with a sentence if they are too many, too large, or of no use to a model.
 * @param {Iterable<File>} files @param {Attachment[]} others the ones that the prompt already has
 * @returns {Promise<Attachment[]>}
 */
export async function readFiles(files, others) {
  const list = [...files];
  if (others.length + list.length > MOST) throw new Error(t("composer.too_many", { n: MOST }));
  const large = list.find((file) => file.size > LARGEST);
  if (large) throw new Error(t("composer.too_large", { name: large.name, size: bytes(LARGEST) }));
  const sum = [...others, ...list].reduce((size, file) => size + file.size, 0);
  if (sum > LARGEST_SUM) throw new Error(t("composer.sum_too_large", { size: bytes(LARGEST_SUM) }));
  return Promise.all(list.map(read));
}

/** @param {File} file @returns {Promise<Attachment>} */
async function read(file) {
  const type = await typeOf(file);
  const url = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(t("composer.unreadable", { name: file.name })));
    reader.readAsDataURL(file);
  });
  const content = String(url).slice(String(url).indexOf(",") + 1);
  const picture = PICTURES.test(type) ? URL.createObjectURL(file) : "";
  return { name: file.name, path: "", type, size: file.size, content, picture };
}

/** A text as a file. @param {string} name @param {string} path @param {string} text @returns {Attachment} */
export function textFile(name, path, text) {
  const encoded = new TextEncoder().encode(text);
  const content = btoa(Array.from(encoded, (byte) => String.fromCharCode(byte)).join(""));
  return { name, path, type: "text/markdown", size: encoded.length, content, picture: "" };
}

/** @param {Attachment} file */
export function release(file) {
  if (file.picture) URL.revokeObjectURL(file.picture);
}

/** As the server takes them. @param {Attachment[]} files */
export const asFields = (files) =>
  files.map((file) => ({ file_name: file.name, file_path: file.path, mime_type: file.type, content: file.content }));

/** @param {Attachment[]} files @param {(file: Attachment) => void} remove */
export function attachmentList(files, remove) {
  if (files.length === 0) return nothing;
  return html`<ul class="attachments" aria-label=${t("composer.attachments")}>
    ${files.map(
      (file) => html`<li class="attachment">
        ${file.picture ? html`<img src=${file.picture} alt="" />` : icon("file")}
        <span class="cut">${file.name}</span><span class="quiet small">${bytes(file.size)}</span>
        <button type="button" class="icon-button" aria-label=${t("composer.remove", { name: file.name })} @click=${() => remove(file)}>${icon("x")}</button>
      </li>`,
    )}
  </ul>`;
}
