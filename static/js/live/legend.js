// @ts-check
/** The legend: project chips that isolate, and the key of marks. */
import { el } from "../lib/dom.js";
import { gettext } from "../lib/i18n.js";
import { colorClass } from "./names.js";

/** Fill the legend for a color mode; `onIsolate(projectId or null)` is called by chips. */
export function showLegend(host, store, map, color) {
  if (color === "util") {
    host.replaceChildren(el("div", { class: "keys heat" }, el("span", {}, `${gettext("Utilization")} 0%`), el("i", { class: "ramp" }), el("span", {}, "100%"), ...keys(["over", "free"])));
    return;
  }
  const chips = projects(store).map(([id, [name, hue]]) => chip(id, name, hue, map, host, store, color));
  host.replaceChildren(...chips, el("div", { class: "keys" }, ...keys(["used", "idle", "over", "free", "evict", ...foreign(store)])));
}

/** Projects that hold something, in the order of the tree. */
function projects(store) {
  const holding = new Set(Object.values(store.parts.wl).map(([, project]) => String(project)));
  return Object.entries(store.parts.pr)
    .filter(([id]) => holding.has(id))
    .map(([id, about]) => [Number(id), about]);
}

function chip(id, name, hue, map, host, store, color) {
  const node = el("button", { class: `chip ${colorClass(hue)}`, type: "button", "aria-pressed": map.focusProject === id }, el("i", { class: "dot" }), name);
  node.addEventListener("click", () => {
    map.isolate(map.focusProject === id ? null : id);
    showLegend(host, store, map, color);
  });
  return node;
}

function foreign(store) {
  return store.parts.frame?.partial ? ["foreign"] : [];
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
