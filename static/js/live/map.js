// @ts-check
/** The cluster map: rows of nodes, keyed GPU views, one delegated listener, arrow keys. On the Overview, and alone. */
import { set, svg, text } from "../lib/dom.js";
import { gpu as asGpu } from "../lib/format.js";
import { format, gettext } from "../lib/i18n.js";
import { FLAG, layout } from "./geometry.js";
import { GpuView } from "./gpu_view.js";
import { gpuName, makeNames } from "./names.js";

const HATCHED = ["pc1", "pc2", "pc3", "pc4", "pc5", "pc6", "pc7", "pc8", "pcq"];
/** More changed GPUs than this at once are not animated: their rows flash. */
const MOST_MOVING = 6;
/** Dense rows are lower than their names: so many rows share one. */
const DENSE_LABEL_EVERY = 8;

/** Several maps may stand on one page; each has a clip of its own. */
let made = 0;

export class ClusterMap {
  /**
   * @param {HTMLElement} host
   * @param {{parts: any}} store
   * @param {{links?: boolean, density?: string, wide?: boolean, color?: string, only?: ((wid: number) => boolean) | null}} options
   *   `only`: show the nodes that such work is on, and all other work there as one neutral amount
   */
  constructor(host, store, { links = true, density = "auto", wide = false, color = "project", only = null } = {}) {
    this.host = host;
    this.store = store;
    this.color = color;
    this.names = makeNames(store, () => this.color);
    this.pinned = { density, wide };
    this.only = only;
    this.views = new Map();
    this.rows = new Map();
    /** The group that stands out: a project, a type or a department, as the colors are; null for all. */
    this.focus = null;
    this.current = null;
    this.onHover = null;
    this.onPick = null;
    this.clip = `map-clip-${(made += 1)}`;
    this.#build();
    new ResizeObserver(() => this.#fit()).observe(host);
    host.addEventListener("pointermove", (event) => this.#hover(event));
    host.addEventListener("pointerleave", () => this.#unhover());
    host.addEventListener("click", (event) => this.#click(event));
    if (links) host.addEventListener("dblclick", (event) => this.#open(event));
    host.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Show what changed: part names with the changed keys, or null for all. */
  update(changed) {
    const mayDiffer = changed.has("nodes") || (this.only && changed.has("gpu"));
    if (mayDiffer && this.#shape() !== this.shape) return this.#build();
    if (changed.has("nodes")) for (const node of this.#nodes()) this.#node(node);
    if (changed.has("pr")) return this.#showGpus([...this.views.keys()], false);
    const keys = changed.get("gpu");
    if (changed.has("gpu")) this.#showGpus((keys ?? Object.keys(this.store.parts.gpu)).map(Number), true);
    else if (changed.has("wl")) this.#showGpus([...this.views.keys()], false);
    if (changed.has("ut")) for (const view of this.views.values()) view.heat(this.store.parts.ut);
  }

  /** Color by project, quota, utilization, type or department. */
  setColor(color) {
    this.color = color;
    this.host.dataset.color = color;
    for (const view of this.views.values()) view.byQuota = color === "quota";
    this.#showGpus([...this.views.keys()], false);
  }

  /** Let one group stand out; null for all. */
  isolate(group) {
    this.focus = group;
    this.root.classList.toggle("dim", group !== null);
    this.#mark(0);
  }

  /** Pin a density, or "auto". */
  setDensity(density) {
    this.pinned.density = density;
    this.#build();
  }

  /** What its GPUs hold, leave idle and leave free, in milli-GPU; others' work is held. */
  sums() {
    const sums = { gpus: this.views.size, held: 0, idle: 0, free: 0 };
    for (const view of this.views.values()) {
      let held = 0;
      for (const { wid, milli, flags } of view.slices) {
        held += milli;
        if (this.only && wid === 0) continue;
        sums.held += milli;
        if (flags & FLAG.idle) sums.idle += milli;
      }
      sums.free += Math.max(0, 1000 - held);
    }
    return sums;
  }

  /** Put a node in view and its first GPU in the keyboard's place. */
  reveal(nodeName) {
    const row = [...this.rows.values()].find((each) => each.node.name === nodeName);
    if (!row?.views.length) return false;
    row.group.scrollIntoView({ block: "center" });
    this.#tabStop(row.views[0].gpu.id);
    row.group.classList.add("row-flash");
    return true;
  }

  #nodes() {
    const nodes = this.store.parts.nodes ?? [];
    if (!this.only) return nodes;
    return nodes.filter((node) => node[6].some(([id]) => (this.store.parts.gpu[id] ?? []).some(([wid]) => wid && this.only(wid))));
  }

  #slices(gpuId) {
    const all = this.store.parts.gpu[gpuId] ?? [];
    if (!this.only) return all;
    const own = all.filter(([wid]) => wid && this.only(wid));
    const others = all.reduce((sum, [wid, milli]) => sum + (wid && this.only(wid) ? 0 : milli), 0);
    return others ? [...own, [0, others, 0]] : own;
  }

  /** Put the keyboard's place and the selection on a GPU. */
  select(gpuId) {
    this.views.get(this.current)?.root.classList.remove("selected");
    if (gpuId !== null) this.views.get(gpuId)?.root.classList.add("selected");
    if (gpuId !== null) this.#tabStop(gpuId);
  }

  /** The width inside the host's padding. */
  #room() {
    const { paddingLeft, paddingRight } = getComputedStyle(this.host);
    return this.host.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight);
  }

  /** Draw anew where the room asks for another layout. */
  #fit() {
    const fitting = this.#layout(this.rows.size);
    const follows = fitting.narrow || fitting.wide;
    const other = fitting.narrow !== this.sizes.narrow || (follows && Math.abs(fitting.width - this.sizes.width) > 1);
    if (other && this.#room() > 0) this.#build();
  }

  /** On its own page a map is as tall as the window before it stands in stacks. */
  #layout(nodeCount) {
    return { ...layout(nodeCount, this.columns, this.#room(), { ...this.pinned, tall: Math.max(320, innerHeight - 240) }), clip: this.clip };
  }

  #shape() {
    return JSON.stringify(this.#nodes().map(([id, , , , , , devices]) => [id, devices.map(([gpuId]) => gpuId)]));
  }

  #build() {
    const nodes = this.#nodes();
    this.shape = this.#shape();
    this.columns = Math.max(1, ...nodes.map((node) => node[6].length));
    this.sizes = this.#layout(nodes.length);
    this.views.clear();
    this.rows.clear();
    this.root = svg("svg", { viewBox: `0 0 ${this.sizes.width} ${this.sizes.height}`, role: "group" });
    set(this.root, { "aria-label": format(gettext("Live map of %(nodes)s nodes. Use the arrow keys to move between GPUs, Enter for details."), { nodes: nodes.length }) });
    this.root.classList.add(this.sizes.density);
    this.root.classList.toggle("narrow", this.sizes.narrow);
    this.root.classList.toggle("aside", this.only !== null);
    this.root.classList.toggle("dim", this.focus !== null);
    this.root.append(defs(this.sizes), ...this.#heads());
    nodes.forEach((node, row) => this.#addNode(node, row));
    this.host.replaceChildren(this.root);
    this.#showGpus([...this.views.keys()], false);
    const first = this.views.keys().next();
    if (!first.done) this.#tabStop(first.value);
  }

  #heads() {
    const { left, bar, x, begin, end, stacks, rows } = this.sizes;
    const heads = [];
    for (let row = 0; row < stacks * rows; row += rows) {
      heads.push(svg("text", { x: begin(row) + left - 12, y: 9, "text-anchor": "end" }, "GPU"), svg("text", { x: end(row), y: 9, "text-anchor": "end" }, gettext("held")));
      for (let column = 0; column < this.columns; column += 1) heads.push(svg("text", { x: x(column, row) + bar.width / 2, y: 9, "text-anchor": "middle" }, String(column)));
    }
    return heads;
  }

  #addNode(node, row) {
    const [id, , , , , , devices] = node;
    const { x, y, bar, density, begin, end, rows } = this.sizes;
    const top = y(row);
    const small = density === "dense" || density === "compact";
    const middle = top + bar.height / 2;
    const group = svg("g", { class: "node", "data-node": id });
    const name = svg("text", { class: "nl", x: begin(row), y: small ? middle + 4 : middle - 1 });
    const about = svg("text", { x: begin(row), y: middle + 11.5 });
    const held = svg("text", { class: "held", x: end(row), y: middle + 3.5, "text-anchor": "end" });
    group.append(held);
    if (density !== "dense" || (row % rows) % DENSE_LABEL_EVERY === 0) group.append(name);
    if (!small) group.append(about);
    const views = devices.map(([gpuId, index, healthy], column) => {
      const view = new GpuView({ id: gpuId, index, healthy }, x(column, row), top, this.sizes);
      view.byQuota = this.host.dataset.color === "quota";
      this.views.set(gpuId, view);
      return view;
    });
    group.append(...views.map((view) => view.root));
    this.rows.set(id, { group, name, about, held, views, row });
    for (const view of views) view.rowId = id;
    this.root.append(group);
    this.#node(node);
  }

  #node([id, name, model, memory, state, virtual]) {
    const row = this.rows.get(id);
    if (!row) return;
    row.node = { id, name, model, memory, state, virtual };
    text(row.name, name.length > this.sizes.nameLength ? `${name.slice(0, this.sizes.nameLength - 1)}…` : name);
    text(row.about, nodeAbout(row.node));
    set(row.about, { class: state === "ok" ? null : state === "lost" ? "bad" : "warn" });
    row.group.classList.toggle("off", state !== "ok");
  }

  #showGpus(ids, mayMove) {
    const animate = mayMove && ids.length <= MOST_MOVING;
    const rows = new Set();
    for (const id of ids) {
      const view = this.views.get(id);
      if (!view) continue;
      view.update(this.#slices(id), this.names, { animate });
      view.heat(this.store.parts.ut);
      rows.add(view.rowId);
    }
    for (const id of rows) this.#finishRow(this.rows.get(id), mayMove && !animate);
    for (const id of ids) this.views.get(id)?.mark({ group: this.focus, workload: 0 }, this.names);
  }

  #finishRow(row, flash) {
    let held = 0;
    let before = 0;
    row.views.forEach((view, index) => {
      held += view.slices.reduce((sum, slice) => sum + (this.only && slice.wid === 0 ? 0 : slice.milli), 0);
      const last = view.slices.at(-1);
      const next = row.views[index + 1]?.slices[0];
      const tied = last && next && last.wid === next.wid && last.wid !== 0;
      view.setTie(Boolean(tied), tied ? this.names(last.wid).paint : "");
      view.setLabels(this.names, before);
      before = last ? last.wid : 0;
      set(view.root, { "aria-label": gpuName(row.node, view, this.names) });
    });
    text(row.held, asGpu(held));
    if (flash) {
      row.group.classList.remove("row-flash");
      requestAnimationFrame(() => row.group.classList.add("row-flash"));
    }
  }

  #mark(workload) {
    for (const view of this.views.values()) view.mark({ group: this.focus, workload }, this.names);
  }

  #at(event) {
    const node = event.target.closest?.("[data-gpu]");
    if (!node) return null;
    const view = this.views.get(Number(node.dataset.gpu));
    if (!view) return null;
    const box = view.hit.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * view.bar.width;
    const slice = view.slices.find((part) => x >= part.x && x <= part.x + part.width);
    return { view, row: this.rows.get(view.rowId), slice: slice ?? null };
  }

  #hover(event) {
    const at = this.#at(event);
    const wid = at?.slice?.wid ?? 0;
    if (wid !== this.hovered) {
      this.hovered = wid;
      this.#mark(this.#spans(wid) ? wid : 0);
    }
    this.onHover?.(at, event.clientX, event.clientY);
  }

  #spans(wid) {
    if (!wid) return false;
    let count = 0;
    for (const view of this.views.values()) if (view.slices.some((slice) => slice.wid === wid)) count += 1;
    return count > 1;
  }

  #unhover() {
    this.hovered = 0;
    this.#mark(0);
    this.onHover?.(null, 0, 0);
  }

  #click(event) {
    const at = this.#at(event);
    if (at) this.onPick?.(at);
  }

  #open(event) {
    const wid = this.#at(event)?.slice?.wid;
    if (wid) location.assign(`/workloads/${wid}`);
  }

  #key(event) {
    const view = this.views.get(this.current);
    if (!view) return;
    const row = this.rows.get(view.rowId);
    const column = row.views.indexOf(view);
    const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Home: [0, -99], End: [0, 99] };
    if (event.key === "Escape") return this.onHover?.(null, 0, 0);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return this.onPick?.({ view, row, slice: view.slices[0] ?? null });
    }
    if (event.key === "[" || event.key === "]") return this.#stepSlice(view, row, event.key === "]" ? 1 : -1);
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const rows = [...this.rows.values()];
    const next = rows[Math.max(0, Math.min(rows.length - 1, row.row + step[0]))];
    const target = next.views[Math.max(0, Math.min(next.views.length - 1, column + step[1]))];
    this.#tabStop(target.gpu.id);
    target.root.focus();
    const box = target.hit.getBoundingClientRect();
    this.onHover?.({ view: target, row: next, slice: null }, box.left, box.bottom);
  }

  #stepSlice(view, row, step) {
    if (!view.slices.length) return;
    const at = view.slices.findIndex((slice) => slice.wid === this.stepped);
    const slice = view.slices[(at + step + view.slices.length) % view.slices.length];
    this.stepped = slice.wid;
    this.onPick?.({ view, row, slice });
  }

  #tabStop(gpuId) {
    const old = this.views.get(this.current);
    if (old) set(old.root, { tabindex: -1 });
    this.current = gpuId;
    const view = this.views.get(gpuId);
    if (view) set(view.root, { tabindex: 0 });
  }
}

function nodeAbout({ model, memory, state, virtual }) {
  const words = { lost: gettext("lost"), cordoned: gettext("cordoned"), draining: gettext("cordoned, draining") }[state];
  if (words) return words;
  const size = memory ? ` ${Math.round(memory / 1024)} GB` : "";
  if (virtual) return format(gettext("virtual%(size)s"), { size });
  return `${model.replace(/^NVIDIA /, "").slice(0, 14)}${/GB/.test(model) ? "" : size}`;
}

/** One clip for all bars of a map, and one hatch for each project color: nothing is made for each GPU. */
function defs({ bar, clip }) {
  const all = svg("defs", {}, svg("clipPath", { id: clip }, svg("rect", { width: bar.width, height: bar.height, rx: 3 })));
  for (const color of HATCHED) {
    all.append(
      svg(
        "pattern",
        { id: `hatch-${color}`, class: color === "pcq" ? "pcq hatch-q" : color, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        svg("rect", { class: "hatch-bg", width: 5, height: 5 }),
        svg("rect", { class: "hatch-line", width: 1.7, height: 5 }),
      ),
    );
  }
  all.append(svg("pattern", { id: "map-dots", width: 5, height: 5, patternUnits: "userSpaceOnUse" }, svg("circle", { cx: 2.5, cy: 2.5, r: 0.9, fill: "var(--surface)" })));
  return all;
}
