// Times, amounts and counts as people read them, in their own time zone.

import { t } from "./strings.js";

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const DAY_OF_YEAR = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const WHOLE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const NUMBER = new Intl.NumberFormat(undefined);
const SHORT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

/** The time today, otherwise the day. @param {number} seconds unix time */
export function when(seconds, now = Date.now()) {
  const date = new Date(seconds * 1000);
  const today = new Date(now);
  if (date.toDateString() === today.toDateString()) return CLOCK.format(date);
  return (date.getFullYear() === today.getFullYear() ? DAY : DAY_OF_YEAR).format(date);
}

/** @param {number} seconds unix time */
export const clock = (seconds) => CLOCK.format(new Date(seconds * 1000));

/** @param {number} seconds unix time */
export const moment = (seconds) => WHOLE.format(new Date(seconds * 1000));

/** @param {number} seconds unix time */
export const iso = (seconds) => new Date(seconds * 1000).toISOString();

/** `4 s`, `2 min 5 s`, `3 h 20 min`. @param {number} seconds */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (seconds > 0 && seconds < 1) return t("time.milliseconds", { n: Math.max(1, Math.round(seconds * 1000)) });
  if (whole < 60) return t("time.seconds", { s: whole });
  if (whole < 3600) return t("time.minutes", { m: Math.floor(whole / 60), s: whole % 60 });
  if (whole < 86_400) return t("time.hours", { h: Math.floor(whole / 3600), m: Math.floor((whole % 3600) / 60) });
  return t("time.days", { d: Math.floor(whole / 86_400), h: Math.floor((whole % 86_400) / 3600) });
}

/** US dollars. @param {number} amount */
export function money(amount) {
  if (!amount) return "$0";
  if (amount < 0.01) return `$${amount.toPrecision(1)}`;
  return `$${amount.toFixed(amount < 100 ? 2 : 0)}`;
}

/** @param {number} value */
export const count = (value) => NUMBER.format(value);

/** `12.3K`. @param {number} value */
export const short = (value) => (value < 1000 ? NUMBER.format(value) : SHORT.format(value));

/** @param {number} value */
export function bytes(value) {
  if (value < 1000) return t("size.bytes", { n: value });
  if (value < 1_000_000) return t("size.kilobytes", { n: (value / 1000).toFixed(value < 10_000 ? 1 : 0) });
  return t("size.megabytes", { n: (value / 1_000_000).toFixed(1) });
}

/** The last part of a path. @param {string} path */
export const nameOf = (path) => path.replace(/\/+$/, "").split("/").pop() || path;
