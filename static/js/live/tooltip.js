// @ts-check
/** The tooltip of the map: all slices of the GPU under the pointer. */
import { el } from "../lib/dom.js";
import { duration, gpu as asGpu } from "../lib/format.js";
import { gettext } from "../lib/i18n.js";
import { business, standing } from "./names.js";

const WIDTH = 300;

/** Return a function for ClusterMap's onHover. */
export function makeTooltip(node, store, names) {
  let shown = null;
  return (at, x, y) => {
    if (!at) {
      shown = null;
      node.classList.remove("on");
      node.setAttribute("aria-hidden", "true");
      return;
    }
    if (shown !== at.view || node.dataset.seq !== String(store.seq)) {
      shown = at.view;
      node.dataset.seq = String(store.seq);
      node.replaceChildren(...content(at, store, names));
    }
    const box = node.getBoundingClientRect();
    const left = Math.min(x + 14, innerWidth - WIDTH - 12);
    const top = y + 14 + box.height > innerHeight ? y - box.height - 10 : y + 14;
    node.style.transform = `translate(${Math.max(8, left)}px, ${Math.max(8, top)}px)`;
    node.classList.add("on");
    node.setAttribute("aria-hidden", "false");
  };
}

function content({ view, row }, store, names) {
  const heading = el("h4", {}, `${row.node.name}, GPU ${view.gpu.index}`);
  const free = 1000 - view.slices.reduce((sum, slice) => sum + slice.milli, 0);
  const lists = view.slices.map((slice) => {
    const about = names(slice.wid);
    const name = about.name ? `${about.projectName} / ${about.name}` : about.projectName;
    const list = el("dl", { class: "gl" }, el("dt", { class: `who-is ${about.color}` }, el("i", { class: "dot" }), ` ${name}`), el("dd", {}, asGpu(slice.milli)));
    if (!slice.wid) return list;
    list.append(el("dt", {}, standing(slice.flags)), el("dd", {}, business(slice.flags, store.parts.ut[slice.wid])));
    if (about.since) list.append(el("dt", {}, gettext("Running for")), el("dd", {}, duration((Date.now() - about.since) / 1000)));
    return list;
  });
  if (free > 0) lists.push(el("dl", { class: "gl" }, el("dt", {}, gettext("Free")), el("dd", {}, asGpu(free))));
  return [heading, ...lists];
}
