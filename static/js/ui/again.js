// @ts-check
/** A part of a page that is fetched again while the page is open and seen. */
import { showTimes } from "./times.js";

const EVERY_MS = 2000;

/** Fetch `place` again and again, each `data-every` seconds, and with `data-now` at once; `shown` is called after each time. */
export function start(place, shown = () => {}) {
  // Where the page has a socket, that one says whether the page is current.
  const stale = (so) => document.querySelector("[data-live]") || document.body.classList.toggle("stale", so);
  const once = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(place.dataset.address, { headers: { "HX-Request": "true" } });
      stale(!answer.ok);
      if (!answer.ok || answer.redirected) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const plot = place.querySelector("[data-plot]");
      place.replaceChildren(...fresh.body.childNodes);
      if (plot) place.querySelector("[data-plot]")?.replaceWith(plot);
      showTimes(place);
      shown();
    } catch {
      stale(true);
    }
  };
  if ("now" in place.dataset) once();
  setInterval(once, Number(place.dataset.every ?? 0) * 1000 || EVERY_MS);
}
