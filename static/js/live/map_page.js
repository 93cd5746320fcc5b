// @ts-check
/** The map alone: as wide as the window, in groups, colored five ways; live, or as it was at a decision. */
import { el, embedded, set, text } from "../lib/dom.js";
import { gpu as asGpu } from "../lib/format.js";
import { format, gettext, ngettext } from "../lib/i18n.js";
import { showLegend } from "./legend.js";
import { ClusterMap } from "./map.js";
import { showTable } from "./map_table.js";
import { makeDepartments } from "./names.js";
import { Ribbon } from "./ribbon.js";
import { SidePanel } from "./side.js";
import { LiveSocket } from "./socket.js";
import { makeStatus } from "./status.js";
import { Store } from "./store.js";
import { makeTooltip } from "./tooltip.js";

const TOPICS = ["map", "kpi", "quota", "events"];

export function start(root) {
  if (embedded("map-state").length) new MapPage(root).start();
}

class MapPage {
  constructor(root) {
    this.root = root;
    this.asked = { ...root.dataset };
    this.asTable = root.dataset.table === "1";
    this.pools = embedded("map-state").map(({ pool, parts }) => ({ pool, store: new Store(parts) }));
    this.sections = [];
    /** Ends the listeners of the sections that stand, when others take their place. */
    this.laid = new AbortController();
  }

  start() {
    this.#lay();
    this.#controls();
    this.show();
    if (this.asked.node) this.sections.some((each) => each.map.reveal(this.asked.node));
    if (this.asked.at) return;
    this.ribbon = new Ribbon(this.root.querySelector("[data-ribbon]"), this.pools[0].store);
    const shown = makeStatus();
    const sockets = this.pools.map(({ pool, store }, index) => new LiveSocket({ store, topics: TOPICS, pool, onChange: (changed) => this.#change(store, changed), onState: index ? () => {} : shown }));
    document.querySelector("[data-live-state]")?.addEventListener("click", () => sockets.forEach((each) => each.togglePause()));
    document.querySelector("[data-retry]")?.addEventListener("click", () => sockets.forEach((each) => each.retry()));
    for (const socket of sockets) socket.start();
  }

  /** One section for each group: a pool, a department, or all in one. */
  #lay() {
    const groups = this.root.querySelector("[data-groups]");
    this.laid.abort();
    this.laid = new AbortController();
    this.sections = this.pools.flatMap(({ pool, store }) => {
      if (this.asked.group === "department") return departmentsOf(store).map((each) => new Section(this, store, { title: each.name, department: each.id }));
      return [new Section(this, store, { title: this.asked.group === "pool" ? pool : "" })];
    });
    groups.replaceChildren(...this.sections.map((each) => each.root));
    for (const each of this.sections) each.draw();
  }

  #change(store, changed) {
    if (changed.has("quota") && this.asked.group === "department" && this.#departmentsDiffer()) return this.#relay();
    for (const each of this.sections) if (each.store === store) each.update(changed);
    if (changed.has("act") || changed.has("ev")) this.ribbon.show();
    if (changed.has("wl") || changed.has("pr") || changed.has("nodes")) this.#about();
  }

  #departmentsDiffer() {
    const now = this.pools.flatMap(({ store }) => departmentsOf(store).map((each) => each.id));
    return now.join() !== this.sections.map((each) => each.department).join();
  }

  #relay() {
    this.#lay();
    this.show();
  }

  /** Show everything anew. */
  show() {
    for (const each of this.sections) each.show();
    this.#about();
  }

  #about() {
    const nodes = this.pools.reduce((sum, { store }) => sum + store.parts.nodes.length, 0);
    const gpus = this.pools.reduce((sum, { store }) => sum + store.parts.nodes.reduce((all, node) => all + node[6].length, 0), 0);
    const words = [format(ngettext("%(n)s node", "%(n)s nodes", nodes), { n: nodes }), format(ngettext("%(n)s GPU", "%(n)s GPUs", gpus), { n: gpus })];
    text(this.root.querySelector('[data-bind="map-about"]'), words.join(gettext(", ")));
    showLegend(this.root.querySelector("[data-legend]"), this.pools.map(({ store }) => store), this.sections.map((each) => each.map), this.asked.color);
  }

  #controls() {
    this.#choice("color", (color) => {
      for (const each of this.sections) {
        each.map.isolate(null);
        each.map.setColor(color);
      }
      this.#about();
    });
    this.#choice("density", (density) => {
      for (const each of this.sections) each.map.setDensity(density);
    });
    const table = this.root.querySelector("[data-as-table]");
    set(table, { "aria-pressed": this.asTable });
    table.addEventListener("click", () => {
      this.asTable = !this.asTable;
      set(table, { "aria-pressed": this.asTable });
      this.#address("table", this.asTable ? "1" : "");
      this.show();
    });
    const wall = this.root.querySelector("[data-wall]");
    wall.hidden = !document.fullscreenEnabled;
    wall.addEventListener("click", () => (document.fullscreenElement ? document.exitFullscreen() : this.root.requestFullscreen()));
    document.addEventListener("fullscreenchange", () => set(wall, { "aria-pressed": document.fullscreenElement === this.root }));
  }

  /** A row of buttons of which one is pressed; the address keeps which. */
  #choice(name, change) {
    const buttons = [...this.root.querySelectorAll(`button[data-choose="${name}"]`)];
    for (const button of buttons) {
      button.addEventListener("click", () => {
        this.asked[name] = button.value;
        for (const each of buttons) set(each, { "aria-pressed": each === button });
        this.#address(name, button.value);
        for (const kept of this.root.querySelectorAll(`input[name="${name}"]`)) kept.value = button.value;
        change(button.value);
      });
    }
  }

  #address(name, value) {
    const address = new URL(location.href);
    if (value) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
    history.replaceState(null, "", address);
  }
}

class Section {
  constructor(page, store, { title, department = null }) {
    this.page = page;
    this.store = store;
    this.department = department;
    this.departments = makeDepartments(store);
    this.figures = el("span", { class: "m" });
    this.host = el("div", { class: "map", "data-map": "", "data-color": page.asked.color });
    this.table = el("div", { class: "scroll map-table", hidden: "" });
    this.root = el("section", { class: "map-group" }, this.host, this.table);
    if (title) {
      set(this.root, { "aria-label": title });
      this.root.prepend(el("div", { class: "ph" }, el("h3", {}, title), this.figures));
    }
  }

  /** Draw the map, once its host has its place and so its width. */
  draw() {
    const { asked, root } = this.page;
    const only = this.department === null ? null : (wid) => this.departments().get(this.store.parts.wl[wid]?.[1])?.id === this.department;
    this.map = new ClusterMap(this.host, this.store, { density: asked.density, wide: true, color: asked.color, only });
    this.map.setColor(asked.color);
    this.side = new SidePanel(root.querySelector("[data-side]"), this.store, this.map.names, () => this.map.select(null), { signal: this.page.laid.signal });
    this.map.onHover = makeTooltip(root.querySelector("[data-tip]"), this.store, this.map.names);
    this.map.onPick = (at) => {
      this.map.onHover(null, 0, 0);
      for (const each of this.page.sections) each.map.select(null);
      this.map.select(at.view.gpu.id);
      for (const each of this.page.sections) each.side.at = null;
      this.side.open(at);
    };
  }

  update(changed) {
    this.map.update(changed);
    this.show();
  }

  show() {
    this.table.hidden = !this.page.asTable;
    this.host.hidden = this.page.asTable;
    if (this.page.asTable) showTable(this.table, this.store, this.map.names, this.map.only);
    this.side.show();
    text(this.figures, this.#figures());
  }

  #figures() {
    const { kpi } = this.store.parts;
    const row = this.department === null ? null : this.store.parts.quota.rows.find((each) => each.dept && each.id === this.department);
    const sums = this.map.sums();
    const waiting = row ? row.waiting : (kpi.waiting ?? 0);
    return format(gettext("held %(held)s, idle %(idle)s, free %(free)s, waiting %(waiting)s"), { held: asGpu(sums.held), idle: asGpu(sums.idle), free: asGpu(sums.free), waiting });
  }
}

/** Departments that hold something, in the order of the tree. */
function departmentsOf(store) {
  const holding = new Set(Object.values(store.parts.wl).map(([, project]) => project));
  const found = new Map();
  for (const [project, each] of makeDepartments(store)()) if (holding.has(project)) found.set(each.id, each);
  return [...found.values()];
}
