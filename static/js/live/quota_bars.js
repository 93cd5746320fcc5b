// @ts-check
/** The quota tree as bars on one axis: computing, idle, guarantee, limit, borrowed. Keyed by row. */
import { set, svg, text } from "../lib/dom.js";
import { gpu as asGpu, quota as asQuota } from "../lib/format.js";
import { format, gettext } from "../lib/i18n.js";
import { colorClass } from "./names.js";

/** Height of a row and of its bar, in a list and alone. */
const SIZES = { small: { pitch: 36, bar: 9 }, large: { pitch: 58, bar: 24 } };
const TOP = 20;
const RIGHT = 86;
/** A limit above this many times the largest other figure would squash the rest: the axis is cut. */
const CUT = 3;
/** The whole guarantee, and where the axis of percents ends. */
const GUARANTEE = 100_000;
const TWICE = 2 * GUARANTEE;

export class QuotaBars {
  /**
   * `wanted`: which rows of the tree may be shown at all.
   * @param {HTMLElement} host @param {{parts: any}} store
   * @param {{prefix: string, percent?: boolean, only?: string, size?: "small" | "large", wanted?: (row: any) => boolean}} options
   */
  constructor(host, store, { prefix, percent = false, only = "", size = "small", wanted = () => true }) {
    this.percent = percent;
    this.only = only;
    this.wanted = wanted;
    this.pitch = SIZES[size].pitch;
    this.bar = SIZES[size].bar;
    this.host = host;
    this.store = store;
    this.prefix = prefix;
    this.rows = new Map();
    this.root = svg("svg", { role: "img", "aria-label": gettext("Quota by department and project") });
    this.axis = svg("g");
    this.root.append(this.#defs(), this.axis);
    host.replaceChildren(this.root);
    this.#measure();
    addEventListener("resize", () => {
      this.#measure();
      this.show();
    });
    this.show();
  }

  /** Asking for a width makes the browser lay the page out: only when it may have changed. */
  #measure() {
    this.width = Math.max(300, this.host.clientWidth - 28);
    this.left = Math.min(220, Math.max(112, this.width * 0.22));
  }

  /** Show the tree as it is now. */
  show() {
    const chosen = choose((this.store.parts.quota?.rows ?? []).filter(this.wanted), this.only);
    const rows = this.percent ? chosen.map(ofGuarantee) : chosen;
    this.most = this.percent ? TWICE : axisEnd(rows);
    const height = TOP + rows.length * this.pitch;
    set(this.root, { viewBox: `0 0 ${this.width} ${height}`, height });
    this.#axis(height);
    const seen = new Set();
    rows.forEach((row, index) => {
      const key = `${row.dept}:${row.id}`;
      seen.add(key);
      if (!this.rows.has(key)) this.rows.set(key, this.#add(row));
      this.#paint(this.rows.get(key), row, TOP + index * this.pitch);
    });
    for (const [key, parts] of this.rows) {
      if (seen.has(key)) continue;
      parts.group.remove();
      this.rows.delete(key);
    }
  }

  #x(mgpu) {
    const room = this.width - this.left - RIGHT;
    return this.left + (Math.min(mgpu, this.most) / this.most) * room;
  }

  #axis(height) {
    const steps = ticks(this.most);
    const key = JSON.stringify([steps, this.width, height]);
    if (this.axisKey === key) return;
    this.axisKey = key;
    this.axis.replaceChildren(
      ...steps.flatMap((mgpu) => {
        const x = this.#x(mgpu);
        return [svg("line", { class: "grid", x1: x, x2: x, y1: 16, y2: height - 4 }), svg("text", { class: "ax", x, y: 9, "text-anchor": mgpu ? "middle" : "start" }, this.percent ? `${mgpu / 1000}%` : asQuota(mgpu))];
      }),
    );
  }

  #add(row) {
    const group = svg("g", { class: row.dept ? "pcd" : colorClass(row.color) });
    const make = (name, attributes = {}) => svg(name, attributes);
    const parts = {
      group,
      title: make("title"),
      name: make("text", { class: row.dept ? "dn" : null, x: row.dept ? 0 : 14 }),
      track: make("rect", { class: "track", height: this.bar, rx: 2 }),
      guaranteed: make("rect", { class: "guaranteed", height: this.bar, rx: 2 }),
      busy: make("rect", { class: "busy", height: this.bar, rx: 2 }),
      idle: make("rect", { height: this.bar, fill: `url(#${this.prefix}-${row.dept ? "pcd" : colorClass(row.color)})` }),
      under: make("rect", { class: "under", height: 3, rx: 1.5 }),
      tick: make("rect", { class: "tick", width: 2, height: this.bar + 8 }),
      bracket: make("path", { class: "bracket" }),
      held: make("text", { "text-anchor": "end" }),
      over: make("text", { class: "ov", "text-anchor": "end" }),
    };
    if (!row.dept) parts.bullet = make("circle", { class: "bullet", r: 4, cx: 5 });
    parts.num = svg("tspan", { class: "num" });
    parts.num2 = svg("tspan", { class: "num2" });
    parts.held.append(parts.num, parts.num2);
    group.append(...[parts.title, parts.name, parts.bullet, parts.track, parts.guaranteed, parts.busy, parts.idle, parts.under, parts.tick, parts.bracket, parts.held, parts.over].filter(Boolean));
    this.root.append(group);
    return parts;
  }

  #paint(parts, row, top) {
    const y = top + 9;
    const middle = y + this.bar / 2;
    const zero = this.#x(0);
    const busy = row.held - row.idle;
    text(parts.name, short(row.name, this.left));
    set(parts.name, { y: middle + 3.5 });
    if (parts.bullet) set(parts.bullet, { cy: middle });
    text(parts.title, inWords(row));
    const trackEnd = row.limit === null ? this.most : row.limit;
    set(parts.track, { x: zero, y, width: row.known ? this.#x(trackEnd) - zero : 0 });
    set(parts.guaranteed, { x: zero, y, width: this.#x(row.quota) - zero });
    set(parts.busy, { x: zero, y, width: this.#x(busy) - zero });
    set(parts.idle, { x: this.#x(busy), y, width: this.#x(row.held) - this.#x(busy) });
    set(parts.under, { x: this.#x(row.held - row.over), y: y + this.bar + 2, width: this.#x(row.held) - this.#x(row.held - row.over) });
    set(parts.tick, { x: this.#x(row.quota) - 1, y: y - 4, visibility: row.known ? null : "hidden" });
    this.#limit(parts, row, y);
    const borrows = row.over > 0;
    set(parts.held, { x: this.width, y: middle + (borrows ? -0.5 : 3.5) });
    set(parts.over, { x: this.width, y: middle + 12.5 });
    if (this.percent) return this.#inPercent(parts, row, borrows);
    text(parts.num, asGpu(row.held));
    text(parts.num2, row.known ? ` / ${asQuota(row.quota)}` : "");
    text(parts.over, borrows ? format(gettext("+%(n)s borrowed"), { n: asGpu(row.over) }) : "");
  }

  #inPercent(parts, row, borrows) {
    const measured = row.known && row.quota > 0;
    text(parts.num, measured ? `${Math.round(row.held / 1000)}%` : "–");
    text(parts.num2, "");
    text(parts.over, measured ? (borrows ? format(gettext("+%(n)s borrowed"), { n: `${Math.round(row.over / 1000)}%` }) : "") : borrows ? gettext("borrows only") : "");
  }

  #limit(parts, row, y) {
    const shown = row.known && row.limit !== null && row.limit !== row.quota;
    if (!shown) return set(parts.bracket, { d: null });
    const x = this.#x(row.limit);
    const cut = row.limit > this.most ? `M${x - 9} ${y - 3}l3 ${this.bar / 2 + 3}l-3 ${this.bar / 2 + 3}` : "";
    set(parts.bracket, { d: `M${x - 3} ${y - 3}h3v${this.bar + 6}h-3${cut}` });
  }

  #defs() {
    const colors = ["pcd", "pc0", "pc1", "pc2", "pc3", "pc4", "pc5", "pc6", "pc7", "pc8"];
    return svg(
      "defs",
      {},
      ...colors.map((color) =>
        svg("pattern", { id: `${this.prefix}-${color}`, class: color, width: 4.4, height: 4.4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("rect", { class: "hatch-bg", width: 4.4, height: 4.4 }), svg("rect", { class: "hatch-line", width: 1.6, height: 4.4 })),
      ),
    );
  }
}

/** The rows that borrow, are short of their guarantee or leave something idle, each under its department. */
export function choose(rows, only) {
  const tests = { borrowing: (row) => row.over > 0, short: (row) => row.known && row.waiting > 0 && row.held < row.quota, idle: (row) => row.idle > 0 };
  const wanted = tests[only];
  if (!wanted) return rows;
  const kept = new Set();
  let department = null;
  for (const row of rows) {
    if (row.dept) department = row;
    if (!wanted(row)) continue;
    kept.add(row);
    if (department) kept.add(department);
  }
  return rows.filter((row) => kept.has(row));
}

/** A row in thousandths of a percent of its guarantee; without one there is nothing to be a part of. */
export function ofGuarantee(row) {
  const share = (mgpu) => (row.quota > 0 ? Math.round((mgpu / row.quota) * GUARANTEE) : 0);
  const over = share(row.over);
  return { ...row, held: share(row.held), idle: share(row.idle), over: row.quota > 0 ? over : row.over, limit: row.limit === null || !(row.quota > 0) ? null : share(row.limit), quota: row.quota > 0 ? GUARANTEE : 0 };
}

/** Where the axis ends: the largest figure, unless a limit is far beyond all the rest. */
export function axisEnd(rows) {
  const known = Math.max(1, ...rows.map((row) => Math.max(row.held, row.quota)));
  const limits = rows.map((row) => row.limit).filter((limit) => limit !== null && limit <= CUT * known);
  return nice(Math.max(known, ...limits));
}

/** A round number of mGPU at or above `mgpu`. */
function nice(mgpu) {
  const power = 10 ** Math.floor(Math.log10(mgpu));
  for (const step of [1, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10]) if (mgpu <= step * power) return Math.round(step * power);
  return 10 * power;
}

/** At most five steps from 0 to the end. */
function ticks(end) {
  return [0, 1, 2, 3, 4].map((step) => Math.round((end * step) / 4));
}

function short(name, room) {
  const most = Math.floor((room - 22) / 6.4);
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

function inWords(row) {
  const held = format(gettext("%(name)s holds %(held)s"), { name: row.name, held: asGpu(row.held) });
  if (!row.known) return held;
  return `${held}. ${format(gettext("Guarantee %(quota)s, limit %(limit)s, idle %(idle)s, borrowed %(over)s."), { quota: asGpu(row.quota), limit: row.limit === null ? gettext("none") : asGpu(row.limit), idle: asGpu(row.idle), over: asGpu(row.over) })}`;
}
