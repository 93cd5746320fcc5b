// @ts-check
/** The Overview, kept current: one store, one socket, and a module for each panel. */
import { DayChart } from "../charts/day.js";
import { showSparks } from "../charts/sparks.js";
import { embedded, sentence, set, text } from "../lib/dom.js";
import { gpu } from "../lib/format.js";
import { format, gettext, ngettext } from "../lib/i18n.js";
import { showLegend } from "./legend.js";
import { showDecisions, showWaiting } from "./lists.js";
import { ClusterMap } from "./map.js";
import { showTable } from "./map_table.js";
import { QuotaBars } from "./quota_bars.js";
import { Ribbon } from "./ribbon.js";
import { SidePanel } from "./side.js";
import { LiveSocket } from "./socket.js";
import { makeStatus } from "./status.js";
import { Store } from "./store.js";
import { showOldest, showTiles } from "./tiles.js";
import { makeTooltip } from "./tooltip.js";

const TOPICS = ["map", "kpi", "quota", "waiting", "events"];
const DAY_EVERY_MS = 20000;
const POINT_EVERY_MS = 5000;
/** Up to so many GPUs the table stands under the map: there is room, and it says more. */
const TABLE_UP_TO = 8;

export function start(root) {
  const store = new Store(embedded("page-state").parts);
  const page = new Page(root, store);
  page.showAll();
  const socket = new LiveSocket({ store, topics: TOPICS, pool: root.dataset.pool, onChange: (changed) => page.change(changed), onState: makeStatus() });
  document.querySelector("[data-live-state]")?.addEventListener("click", () => socket.togglePause());
  document.querySelector("[data-retry]")?.addEventListener("click", () => socket.retry());
  socket.start();
}

class Page {
  constructor(root, store) {
    this.root = root;
    this.store = store;
    this.color = "project";
    this.day = embedded("day-state");
    this.map = new ClusterMap(root.querySelector("[data-map]"), store);
    this.side = new SidePanel(document.querySelector("[data-side]"), store, this.map.names, () => this.map.select(null));
    this.map.onHover = makeTooltip(document.querySelector("[data-tip]"), store, this.map.names);
    this.map.onPick = (at) => {
      this.map.onHover(null, 0, 0);
      this.map.select(at.view.gpu.id);
      this.side.open(at);
    };
    this.ribbon = new Ribbon(root.querySelector("[data-ribbon]"), store);
    this.bars = new QuotaBars(root.querySelector("[data-quota]"), store, { prefix: "q" });
    this.chart = new DayChart(root.querySelector("[data-chart]"), this.day, root.dataset.plotly);
    this.table = root.querySelector("[data-map-table]");
    this.asTable = false;
    this.#controls();
    setInterval(() => showOldest(root, store.parts.kpi), 1000);
    setInterval(() => this.#refreshDay(), DAY_EVERY_MS);
  }

  /** Show everything, as at first paint. */
  showAll() {
    this.change(new Map(Object.keys(this.store.parts).map((name) => [name, null])), { first: true });
    showSparks(this.root, this.day);
  }

  /** Show what a message has changed, in the next frame. */
  change(changed, { first = false } = {}) {
    const { parts } = this.store;
    if (!first) this.map.update(changed);
    if (changed.has("kpi")) this.#figures(parts.kpi, first);
    if (changed.has("lede") && parts.lede.length) sentence(document.querySelector('[data-bind="lede"]'), parts.lede);
    if (changed.has("quota") || changed.has("pr")) this.#quota(parts.quota);
    if (changed.has("wait") || changed.has("kpi")) showWaiting(this.root, parts.wait, parts.kpi);
    if (changed.has("ev")) showDecisions(this.root, parts.ev);
    if (changed.has("act") || changed.has("ev")) this.ribbon.show();
    if (changed.has("wl") || changed.has("pr") || changed.has("nodes")) this.#about();
    if (changed.has("gpu") || changed.has("ut") || changed.has("wl")) this.#details();
  }

  #figures(kpi, first) {
    showTiles(this.root, kpi);
    text(document.querySelector('[data-bind="workloads"]'), String(kpi.workloads));
    if (!first) this.#point(kpi);
  }

  #quota(quota) {
    this.bars.show();
    text(this.root.querySelector('[data-bind="unused"]'), gpu(quota.unused));
  }

  #about() {
    const { nodes } = this.store.parts;
    const gpus = nodes.reduce((sum, node) => sum + node[6].length, 0);
    const words = [format(ngettext("%(n)s node", "%(n)s nodes", nodes.length), { n: nodes.length }), format(ngettext("%(n)s GPU", "%(n)s GPUs", gpus), { n: gpus })];
    text(this.root.querySelector('[data-bind="map-about"]'), words.join(gettext(", ")));
    showLegend(this.root.querySelector("[data-legend]"), [this.store], [this.map], this.color);
  }

  #details() {
    const gpus = this.map.views.size;
    const shown = this.asTable || gpus <= TABLE_UP_TO;
    this.table.hidden = !shown;
    this.map.host.hidden = this.asTable && gpus > TABLE_UP_TO;
    if (shown) showTable(this.table, this.store, this.map.names);
    this.side.show();
  }

  #controls() {
    for (const button of this.root.querySelectorAll("[data-color]")) {
      if (button.tagName === "BUTTON") button.addEventListener("click", () => this.#setColor(button.dataset.color));
    }
    const table = this.root.querySelector("[data-as-table]");
    table.addEventListener("click", () => {
      this.asTable = !this.asTable;
      set(table, { "aria-pressed": this.asTable });
      this.#details();
    });
  }

  #setColor(color) {
    this.color = color;
    for (const button of this.root.querySelectorAll("button[data-color]")) set(button, { "aria-pressed": button.dataset.color === color });
    if (color === "util") this.map.isolate(null);
    this.map.setColor(color);
    this.#about();
  }

  /** A new point on the chart and the sparklines, at most one in five seconds. */
  #point(kpi) {
    const now = Date.now();
    const { day } = this;
    if (now - (day.at.at(-1) ?? 0) < POINT_EVERY_MS) return;
    for (const [name, value] of [["at", now], ["held", kpi.held], ["idle", kpi.idle], ["borrowed", kpi.borrowed], ["waiting", kpi.waiting]]) day[name].push(value);
    day.to = now;
    this.chart.show(day);
    showSparks(this.root, day);
  }

  async #refreshDay() {
    if (document.hidden || document.body.classList.contains("stale")) return;
    try {
      const answer = await fetch(`${this.root.dataset.day}?pool=${encodeURIComponent(this.root.dataset.pool)}`);
      if (!answer.ok || answer.redirected) return;
      this.day = await answer.json();
      this.chart.show(this.day);
      showSparks(this.root, this.day);
    } catch {
      // The socket says that the connection is lost; the chart keeps what it has.
    }
  }
}
