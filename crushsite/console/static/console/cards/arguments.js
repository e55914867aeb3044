// Checks arguments against the JSON Schema of a tool, before the server does the same.

import { t } from "../core/strings.js";

/** @typedef {Record<string, any>} Schema */

/** @type {Record<string, (value: unknown) => boolean>} */
const IS_TYPE = {
  string: (value) => typeof value === "string",
  boolean: (value) => typeof value === "boolean",
  number: (value) => typeof value === "number",
  integer: (value) => Number.isInteger(value),
  array: (value) => Array.isArray(value),
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  null: (value) => value === null,
};

/** @param {Schema} schema @returns {string[]} */
export const typesOf = (schema) => [schema["type"] ?? []].flat();

/**
 * Why the value does not fit, or an empty text.
 * @param {unknown} value @param {Schema} schema @param {string} [name]
 * @returns {string}
 */
export function faultIn(value, schema, name = "") {
  const shown = name || t("cards.fault_value");
  const types = typesOf(schema);
  if (types.length > 0 && !types.some((type) => IS_TYPE[type]?.(value) ?? true)) {
    return t("cards.fault_type", { name: shown, type: types.join(" / ") });
  }
  if (schema["enum"] && !schema["enum"].includes(value)) {
    return t("cards.fault_enum", { name: shown, values: schema["enum"].join(", ") });
  }
  if (typeof value === "number") return faultInNumber(value, schema, shown);
  if (Array.isArray(value)) return first(value.map((each, index) => faultIn(each, schema["items"] ?? {}, `${name}[${index}]`)));
  if (IS_TYPE["object"]?.(value)) return faultInObject(/** @type {Schema} */ (value), schema, name);
  return "";
}

/** @param {number} value @param {Schema} schema @param {string} name */
function faultInNumber(value, schema, name) {
  if (value < (schema["minimum"] ?? -Infinity)) return t("cards.fault_minimum", { name, limit: schema["minimum"] });
  if (value > (schema["maximum"] ?? Infinity)) return t("cards.fault_maximum", { name, limit: schema["maximum"] });
  return "";
}

/** @param {Schema} value @param {Schema} schema @param {string} name */
function faultInObject(value, schema, name) {
  const properties = schema["properties"] ?? {};
  const path = (/** @type {string} */ key) => (name ? `${name}.${key}` : key);
  const missing = (schema["required"] ?? []).find((/** @type {string} */ key) => !Object.hasOwn(value, key));
  if (missing !== undefined) return t("cards.fault_required", { name: path(missing) });
  return first(
    Object.entries(value).map(([key, each]) => {
      if (Object.hasOwn(properties, key)) return faultIn(each, properties[key], path(key));
      return schema["additionalProperties"] === false ? t("cards.fault_unknown", { name: path(key) }) : "";
    }),
  );
}

/** @param {string[]} faults */
const first = (faults) => faults.find((each) => each !== "") ?? "";
