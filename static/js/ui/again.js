// @ts-check
/** A part of a page that is fetched again while the page is open and seen. */
import { showTimes } from "./times.js";

const EVERY_MS = 2000;

/** Fetch `place` again and again; `shown` is called after each time. */
export function start(place, shown = () => {}) {
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(place.dataset.address, { headers: { "HX-Request": "true" } });
      document.body.classList.toggle("stale", !answer.ok);
      if (!answer.ok || answer.redirected) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const plot = place.querySelector("[data-plot]");
      place.replaceChildren(...fresh.body.childNodes);
      if (plot) place.querySelector("[data-plot]")?.replaceWith(plot);
      showTimes(place);
      shown();
    } catch {
      document.body.classList.add("stale");
    }
  }, EVERY_MS);
}
