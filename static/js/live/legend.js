// @ts-check
/** The legend: chips that isolate a project, a type or a department, and the key of marks. */
import { el } from "../lib/dom.js";
import { gettext } from "../lib/i18n.js";
import { KIND_HUES, colorClass, kindName, makeDepartments } from "./names.js";

/** Fill the legend for a color mode from all stores shown; its chips isolate on all of their maps. */
export function showLegend(host, stores, maps, color) {
  if (color === "util") {
    host.replaceChildren(el("div", { class: "keys heat" }, el("span", {}, `${gettext("Utilization")} 0%`), el("i", { class: "ramp" }), el("span", {}, "100%"), ...keys(["over", "free"])));
    return;
  }
  const chips = groupsOf(stores, color).map((group) => chip(group, maps, () => showLegend(host, stores, maps, color)));
  host.replaceChildren(...chips, el("div", { class: "keys" }, ...keys(["used", "idle", "over", "free", "evict", ...foreign(stores)])));
}

/** What holds something in any of the stores, each once: `[key, name, hue]`. */
export function groupsOf(stores, color) {
  return [...new Map(stores.flatMap((store) => groups(store, color)).map((group) => [group[0], group])).values()];
}

/** What holds something in one, by what the colors tell apart: `[key, name, hue]`. */
function groups(store, color) {
  const work = Object.values(store.parts.wl);
  if (color === "type") {
    const held = new Set(work.map(([, , kind]) => kind));
    return Object.entries(KIND_HUES).filter(([kind]) => held.has(kind)).map(([kind, hue]) => [kind, kindName(kind), hue]);
  }
  const holding = new Set(work.map(([, project]) => String(project)));
  if (color === "dept") {
    const held = [...makeDepartments(store)()].filter(([project]) => holding.has(String(project)));
    return [...new Map(held.map(([, each]) => [each.id, [each.id, each.name, each.hue]])).values()];
  }
  // In the order of the tree.
  return Object.entries(store.parts.pr).filter(([id]) => holding.has(id)).map(([id, [name, hue]]) => [Number(id), name, hue]);
}

function chip([key, name, hue], maps, again) {
  const pressed = maps[0].focus === key;
  const node = el("button", { class: `chip ${colorClass(hue)}`, type: "button", "aria-pressed": pressed }, el("i", { class: "dot" }), name);
  node.addEventListener("click", () => {
    for (const each of maps) each.isolate(pressed ? null : key);
    again();
  });
  return node;
}

function foreign(stores) {
  return stores.some((store) => store.parts.frame?.partial) ? ["foreign"] : [];
}

function keys(names) {
  const words = {
    used: gettext("Computing"),
    idle: gettext("Idle"),
    over: gettext("Borrowed, can be reclaimed"),
    free: gettext("Free"),
    evict: gettext("Leaving"),
    foreign: gettext("In use by others"),
  };
  return names.map((name) => el("span", {}, el("i", { class: `sw ${name}` }), words[name]));
}
