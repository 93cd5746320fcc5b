// @ts-check
/** One GPU on the map: its elements are kept and changed, never rebuilt. */
import { calm, set, svg, text } from "../lib/dom.js";
import { FLAG, heat, label, labelWidth, place } from "./geometry.js";

const GROW_MS = 900;
const MOVE_MS = 240;
const EASE = "cubic-bezier(.2,.7,.2,1)";

export class GpuView {
  /** @param {{id: number, index: number, healthy: number}} gpu */
  constructor(gpu, x, y, sizes) {
    this.gpu = gpu;
    this.bar = sizes.bar;
    this.density = sizes.density;
    this.gap = sizes.gap;
    this.slices = [];
    this.byQuota = false;
    this.parts = new Map();
    const { width, height } = sizes.bar;
    this.root = svg("g", { class: "g", transform: `translate(${x} ${y})`, "data-gpu": gpu.id, tabindex: -1, role: "img" });
    this.track = svg("rect", { class: "track", x: 0.5, y: 0.5, width: width - 1, height: height - 1, rx: 3 });
    this.inner = svg("g", { "clip-path": `url(#${sizes.clip})` });
    this.outer = svg("g");
    this.tie = svg("rect", { class: "sl tie", x: width - 1, y: height / 2 - 1.5, width: sizes.gap + 2, height: 3 });
    this.hit = svg("rect", { class: "hit", width, height, rx: 3 });
    this.root.append(this.track, this.inner, this.outer, this.hit);
  }

  /** Show slices; `names` gives the workload and project of each. */
  update(slices, names, { animate }) {
    const before = this.slices;
    this.slices = place(slices, this.bar);
    const seen = new Map();
    for (const slice of this.slices) {
      const key = this.#key(slice, seen);
      const old = this.parts.get(key);
      const part = old ?? this.#add(key, slice);
      const from = old ? old.slice : null;
      part.slice = slice;
      this.#paint(part, slice, names(slice.wid));
      if (animate && !calm()) this.#move(part, from, slice, before);
    }
    for (const [key, part] of this.parts) if (!seen.has(key)) this.#leave(key, part, animate);
    this.track.classList.toggle("full", slices.reduce((sum, [, milli]) => sum + milli, 0) >= 999);
    this.#ring();
  }

  /** Colors by utilization are set apart: they change without the slices. */
  heat(loads) {
    for (const part of this.parts.values()) part.rect.style.setProperty("--heat", heat(loads[part.slice.wid]) || "var(--u0)");
    const last = this.slices.at(-1);
    if (last) this.tie.style.setProperty("--heat", heat(loads[last.wid]) || "var(--u0)");
  }

  /** Show or hide the tie to the next GPU. */
  setTie(shown, colorClass) {
    if (!shown) return this.tie.remove();
    set(this.tie, { class: `sl tie ${colorClass}` });
    if (!this.tie.parentNode) this.outer.append(this.tie);
  }

  /** Name slices only where the workload does not go on from the GPU to the left. */
  setLabels(names, continued) {
    for (const part of this.parts.values()) {
      const about = names(part.slice.wid);
      const goesOn = part.slice === this.slices[0] && continued === part.slice.wid;
      const words = this.density === "dense" || this.density === "compact" || goesOn || !part.slice.wid ? "" : label(about.name, part.slice.width);
      this.#label(part, words);
    }
  }

  /** Mark the slices of a group (isolate) and of a workload (gang under the pointer). */
  mark({ group, workload }, names) {
    for (const part of this.parts.values()) {
      const about = names(part.slice.wid);
      const on = group === null || about.group === group;
      for (const node of [part.rect, part.under, part.words, part.pill]) node?.classList.toggle("on", on);
      part.rect.classList.toggle("mate", workload !== 0 && workload === part.slice.wid);
    }
  }

  #key(slice, seen) {
    let key = String(slice.wid);
    while (seen.has(key)) key += "'";
    seen.set(key, slice);
    return key;
  }

  #add(key, slice) {
    const rect = svg("rect", { height: this.bar.height });
    this.inner.append(rect);
    const part = { rect, under: null, words: null, pill: null, march: null, slice };
    this.parts.set(key, part);
    return part;
  }

  #paint(part, slice, about) {
    const idle = (slice.flags & FLAG.idle) !== 0 && this.density !== "dense";
    const leaving = (slice.flags & FLAG.leaving) !== 0;
    const on = part.rect.classList.contains("on") ? " on" : "";
    set(part.rect, {
      class: `sl slice ${about.paint}${idle && !leaving ? " idle" : ""}${leaving ? " leaving" : ""}${on}`,
      x: slice.x,
      width: slice.width,
      fill: idle && !leaving ? `url(#hatch-${this.byQuota ? "pcq" : about.paint})` : null,
      "data-wid": slice.wid,
    });
    this.#extra(part, "under", (slice.flags & (FLAG.siblings | FLAG.departments)) !== 0, () =>
      svg("rect", { class: `sl under${on}`, y: this.bar.height + 2, height: this.density === "dense" ? 1 : 3, rx: 1.5 }),
    );
    if (part.under) set(part.under, { x: slice.x, width: slice.width });
    this.#extra(part, "march", leaving, () => svg("rect", { class: "march", y: 0.8, height: this.bar.height - 1.6, rx: 2 }));
    if (part.march) set(part.march, { x: slice.x + 0.8, width: Math.max(0, slice.width - 1.6) });
    this.#extra(part, "dots", (slice.flags & FLAG.nodata) !== 0 && this.density !== "dense", () => svg("rect", { class: "nodata", fill: "url(#map-dots)", height: this.bar.height }));
    if (part.dots) set(part.dots, { x: slice.x, width: slice.width });
  }

  #extra(part, name, wanted, make) {
    if (wanted && !part[name]) {
      part[name] = make();
      this.outer.append(part[name]);
    } else if (!wanted && part[name]) {
      part[name].remove();
      part[name] = null;
    }
  }

  #label(part, words) {
    const onPill = (part.slice.flags & FLAG.idle) !== 0;
    const leaving = (part.slice.flags & FLAG.leaving) !== 0;
    const color = [...part.rect.classList].find((name) => /^pc/.test(name)) ?? "";
    const on = part.rect.classList.contains("on") ? " on" : "";
    this.#extra(part, "pill", words !== "" && onPill && !leaving, () => svg("rect", { height: 13, rx: 2 }));
    this.#extra(part, "words", words !== "", () => svg("text", {}));
    if (!words) return;
    const y = this.bar.height / 2;
    if (part.pill) set(part.pill, { class: `sl pill ${color}${on}`, x: part.slice.x + 3, y: y - 6.5, width: labelWidth(words) });
    const state = leaving ? " on-leaving" : part.pill ? " on-pill" : "";
    set(part.words, { class: `lab sl ${color}${state}${on}`, x: part.slice.x + (part.pill ? 6 : 5), y: y + 3.2 });
    text(part.words, words);
    if (part.pill && part.pill.nextSibling !== part.words) this.outer.append(part.pill, part.words);
  }

  /** A slice that takes a victim's place grows from the left; others slide to where they are now. */
  #move(part, from, slice, before) {
    if (!from) {
      const replaces = before.some((old) => old.flags & FLAG.leaving);
      part.rect.animate([{ transform: "scaleX(0)" }, { transform: "none" }], { duration: replaces ? GROW_MS : MOVE_MS, easing: EASE });
    } else if (Math.abs(from.x - slice.x) > 0.5) {
      part.rect.animate([{ transform: `translateX(${from.x - slice.x}px)` }, { transform: "none" }], { duration: MOVE_MS, easing: EASE });
    }
  }

  #leave(key, part, animate) {
    this.parts.delete(key);
    for (const node of [part.under, part.words, part.pill, part.march, part.dots]) node?.remove();
    if (!animate || calm()) return part.rect.remove();
    part.rect.classList.add("going");
    const end = part.rect.animate([{ transform: "none" }, { transform: "scaleX(0)" }], { duration: part.slice.flags & FLAG.leaving ? GROW_MS : MOVE_MS, easing: EASE });
    const done = () => part.rect.remove();
    end.finished.then(done, done);
  }

  #ring() {
    const wanted = this.slices.some((slice) => slice.flags & FLAG.leaving);
    if (wanted && !this.ring) {
      this.ring = svg("rect", { class: "ring", x: -2.5, y: -2.5, width: this.bar.width + 5, height: this.bar.height + 10, rx: 5 });
      this.root.insertBefore(this.ring, this.hit);
    } else if (!wanted && this.ring) {
      this.ring.remove();
      this.ring = null;
    }
  }
}
