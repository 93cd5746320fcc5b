// @ts-check
/** Check boxes in a table: how many are chosen, all at once, and what can be done with them. */
import { text } from "../lib/dom.js";
import { format, gettext } from "../lib/i18n.js";

export function start(place) {
  place.addEventListener("change", (event) => {
    if ("all" in event.target.dataset) for (const box of boxes(place)) box.checked = event.target.checked;
    show(place);
  });
  place.addEventListener("htmx:afterSwap", () => show(place));
  show(place);
}

function boxes(place) {
  return [...place.querySelectorAll('input[name="id"]')];
}

function show(place) {
  const all = boxes(place);
  const chosen = all.filter((box) => box.checked).length;
  const every = place.querySelector("[data-all]");
  if (every) {
    every.checked = chosen > 0 && chosen === all.length;
    every.indeterminate = chosen > 0 && chosen < all.length;
  }
  text(place.querySelector("[data-chosen]"), chosen ? format(gettext("%(n)s chosen"), { n: chosen }) : "");
  for (const button of place.querySelectorAll("button[name='do']")) button.disabled = !chosen;
}
