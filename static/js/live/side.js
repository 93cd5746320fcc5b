// @ts-check
/** The panel beside the map: one GPU in full, with links to what is on it. Not a modal. */
import { el, icon } from "../lib/dom.js";
import { duration, gpu as asGpu } from "../lib/format.js";
import { gettext } from "../lib/i18n.js";
import { business, standing } from "./names.js";

export class SidePanel {
  /**
   * @param {HTMLElement} node
   * @param {{parts: any}} store
   * @param {Function} names
   * @param {() => void} onClose
   * @param {{signal?: AbortSignal}} options `signal`: ends its listener, where a panel takes the place of another
   */
  constructor(node, store, names, onClose, { signal } = {}) {
    this.node = node;
    this.store = store;
    this.names = names;
    this.onClose = onClose;
    this.at = null;
    const onKey = (event) => {
      if (event.key === "Escape" && this.at) this.close();
    };
    addEventListener("keydown", onKey, { signal });
  }

  open(at) {
    this.at = at;
    this.node.hidden = false;
    this.show();
  }

  close() {
    this.at = null;
    this.node.hidden = true;
    this.onClose();
  }

  /** Show the GPU as it is now. */
  show() {
    if (!this.at) return;
    const { view, row, slice } = this.at;
    const close = el("button", { class: "ib", type: "button", "aria-label": gettext("Close") }, icon("x"));
    close.addEventListener("click", () => this.close());
    const cards = view.slices.map((part) => this.#card(part, slice !== null && part.wid === slice.wid));
    const free = 1000 - view.slices.reduce((sum, part) => sum + part.milli, 0);
    if (free > 0) cards.push(el("p", { class: "sub" }, `${gettext("Free")} ${asGpu(free)}`));
    this.node.replaceChildren(el("header", {}, el("h2", {}, `${row.node.name}, GPU ${view.gpu.index}`), close), ...cards);
  }

  #card(part, chosen) {
    const about = this.names(part.wid);
    const title = el("h3", { class: about.color }, el("i", { class: "dot" }));
    if (part.wid) title.append(el("a", { class: "link", href: `/workloads/${part.wid}` }, `${about.projectName} / ${about.name}`));
    else title.append(about.projectName);
    const facts = el("dl", { class: "kv" }, el("dt", {}, gettext("Share")), el("dd", {}, asGpu(part.milli)));
    if (part.wid) {
      facts.append(el("dt", {}, gettext("Use")), el("dd", {}, business(part.flags, this.store.parts.ut[part.wid])));
      facts.append(el("dt", {}, gettext("Guarantee")), el("dd", {}, standing(part.flags)));
      facts.append(el("dt", {}, gettext("May be interrupted")), el("dd", {}, about.preemptible ? gettext("yes") : gettext("no")));
      if (about.since) facts.append(el("dt", {}, gettext("Running for")), el("dd", {}, duration((Date.now() - about.since) / 1000)));
    }
    return el("div", { class: chosen ? "card at" : "card" }, title, facts);
  }
}
