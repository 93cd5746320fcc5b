// @ts-check
/** How amounts and times look. dashboard/templatetags/gpu.py is the twin; one table tests both. */
import { format, gettext } from "./i18n.js";

export const UNKNOWN = "–";

/** Milli-GPU as text: 90 is "0.09", 1005 is "1.005"; unknown is a dash, never 0. */
export function gpu(mgpu) {
  if (mgpu === null || mgpu === undefined) return UNKNOWN;
  const sign = mgpu < 0 ? "-" : "";
  const size = Math.abs(mgpu);
  const whole = Math.floor(size / 1000);
  const places = String(size % 1000).padStart(3, "0");
  return `${sign}${whole}.${places.endsWith("0") ? places.slice(0, 2) : places}`;
}

/** A bound: whole numbers without places; null is no limit. */
export function quota(mgpu) {
  if (mgpu === null || mgpu === undefined) return gettext("no limit");
  return mgpu % 1000 === 0 ? String(mgpu / 1000) : gpu(mgpu);
}

/** `part` of `whole` as "93%", one decimal only under 1. */
export function percent(part, whole) {
  if (!whole || part === null || part === undefined) return UNKNOWN;
  const share = (100 * part) / whole;
  return share > 0 && share < 1 ? `${share.toFixed(1)}%` : `${Math.round(share)}%`;
}

/** "12 s", "41 min", "3 h 12 min" or "9 d". */
export function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return format(gettext("%(n)s s"), { n: s });
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return format(gettext("%(n)s min"), { n: minutes });
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return format(gettext("%(h)s h %(n)s min"), { h: hours, n: minutes % 60 });
  return format(gettext("%(n)s d"), { n: Math.floor(hours / 24) });
}

/** 24-hour time in the reader's zone. */
export function clock(ms) {
  const at = new Date(ms);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}

/** Date and 24-hour time in the reader's zone. */
export function dateTime(ms) {
  const at = new Date(ms);
  const day = [at.getFullYear(), at.getMonth() + 1, at.getDate()].map((n) => String(n).padStart(2, "0")).join("-");
  return `${day} ${clock(ms)}`;
}

/** Money: no decimals from 100 up. */
export function money(amount, currency) {
  const value = Number(amount);
  const places = value >= 100 ? 0 : 2;
  return currency + value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
}

/** What a workload asks for: GPU memory, a share, or no GPU. */
export function asked(mgpu, mib) {
  if (mib) return format(gettext("%(n)s MiB"), { n: mib.toLocaleString("en") });
  return mgpu ? format(gettext("%(n)s GPU"), { n: gpu(mgpu) }) : gettext("no GPU");
}
