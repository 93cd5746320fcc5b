// @ts-check
/** What came after the first line of a list: said above it, shown when it is pressed. */
import { text } from "../lib/dom.js";
import { format, gettext, ngettext } from "../lib/i18n.js";
import { LiveSocket } from "../live/socket.js";
import { makeStatus } from "../live/status.js";
import { Store } from "../live/store.js";

/** Of the other pools no word comes: they are asked for as often as this. */
const EVERY_MS = 15000;

export function start(place) {
  const link = place.querySelector("[data-newer]");
  const ask = async () => {
    if (document.hidden || socket.paused) return;
    try {
      const answer = await fetch(place.dataset.address);
      if (!answer.ok || answer.redirected) return;
      show(link, await answer.json());
    } catch {
      // The socket says that the connection is lost.
    }
  };
  const socket = new LiveSocket({ store: new Store({}), topics: ["events"], pool: "", onChange: ask, onState: makeStatus() });
  document.querySelector("[data-live-state]")?.addEventListener("click", () => socket.togglePause());
  document.querySelector("[data-retry]")?.addEventListener("click", () => socket.retry());
  socket.start();
  setInterval(ask, EVERY_MS);
}

function show(link, { newer, more }) {
  link.hidden = !newer;
  const said = more ? gettext("More than %(n)s newer, show") : ngettext("%(n)s newer, show", "%(n)s newer, show", newer);
  text(link, format(said, { n: newer }));
}
