// @ts-check
/** A word on what the reader has just done, with a link to it; it goes away by itself. */
import { el } from "../lib/dom.js";

const SHOWN_MS = 12000;

/** Show `said`; the part `name` of it leads to `address`. */
export function toast({ said, name, address }) {
  const place = document.querySelector("[data-toasts]");
  const [before, ...after] = said.split(name);
  const words = el("div", { class: "toast" }, before, el("a", { class: "link", href: address }, name), after.join(name));
  place?.append(words);
  setTimeout(() => words.remove(), SHOWN_MS);
}
