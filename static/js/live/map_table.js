// @ts-check
/** The map as a table: the same data for readers, phones and small clusters. */
import { el } from "../lib/dom.js";
import { gpu as asGpu } from "../lib/format.js";
import { gettext } from "../lib/i18n.js";
import { business, standingShort } from "./names.js";

/** Fill `host` with one line for each slice, or for each of which `only` says so. */
export function showTable(host, store, names, only = null) {
  // Of a single GPU the map above says where it is.
  const where = Object.keys(store.parts.gpu).length > 1 ? [gettext("Node"), "GPU"] : [];
  const heads = [...where, gettext("Project"), gettext("Workload"), gettext("Share"), gettext("Use"), gettext("State")];
  const body = el("tbody");
  for (const [, nodeName, , , , , devices] of store.parts.nodes) {
    for (const [gpuId, index] of devices) body.append(...lines(where.length ? [el("td", { class: "mono nowrap" }, nodeName), el("td", {}, String(index))] : [], store.parts.gpu[gpuId] ?? [], store, names, only));
  }
  const head = el("thead", {}, el("tr", {}, ...heads.map((name, at) => el("th", at === heads.length - 3 || at === heads.length - 2 ? { class: "r" } : {}, name))));
  host.replaceChildren(el("table", { class: "tb" }, head, body));
}

function lines(where, slices, store, names, only) {
  const rows = slices.filter(([wid]) => !only || only(wid)).map(([wid, milli, flags]) => {
    const about = names(wid);
    const name = wid ? el("a", { class: "nm", href: `/workloads/${wid}` }, about.name) : "–";
    return el(
      "tr",
      {},
      ...where.map((cell) => cell.cloneNode(true)),
      el("td", { class: `nowrap ${about.color}` }, el("i", { class: "dot" }), ` ${about.projectName}`),
      el("td", {}, name),
      el("td", { class: "r" }, asGpu(milli)),
      el("td", { class: "r nowrap" }, wid ? business(flags, store.parts.ut[wid]) : "–"),
      el("td", { class: "nowrap" }, wid ? standingShort(flags) : "–"),
    );
  });
  const free = 1000 - slices.reduce((sum, [, milli]) => sum + milli, 0);
  if (free > 0 && !only) {
    const cells = [...where, el("td", { colspan: 2, class: "sub" }, gettext("free")), el("td", { class: "r" }, asGpu(free)), el("td"), el("td")];
    rows.push(el("tr", {}, ...cells));
  }
  return rows;
}
