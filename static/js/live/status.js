// @ts-check
/** Shows the state of the connection: the pill, the bar, and the fading of what is old. */
import { text } from "../lib/dom.js";
import { clock } from "../lib/format.js";
import { format, gettext } from "../lib/i18n.js";

const BAR_AFTER_MS = 3000;

/** Return a function for LiveSocket's onState. */
export function makeStatus() {
  const pill = document.querySelector("[data-live-state]");
  const bar = document.querySelector("[data-stalebar]");
  return (state, socket) => {
    if (!pill) return;
    pill.dataset.state = state === "polling" ? "live" : state;
    text(pill.querySelector("b"), word(state));
    text(pill.querySelector("[data-lag]"), lag(state, socket));
    const lost = state === "lost" && Date.now() - socket.lostAt > BAR_AFTER_MS;
    document.body.classList.toggle("stale", lost);
    bar.hidden = !(lost || state === "silent");
    bar.querySelector("[data-retry]").hidden = !lost;
    if (!bar.hidden) text(bar.querySelector("[data-stale-text]"), lost ? lostText(socket) : silentText(socket));
  };
}

function word(state) {
  return {
    connecting: gettext("Connecting"),
    live: gettext("Live"),
    polling: gettext("Live, every 5 s"),
    quiet: gettext("Quiet"),
    lost: gettext("Reconnecting"),
    silent: gettext("Scheduler silent"),
    paused: gettext("Paused"),
  }[state];
}

function lag(state, socket) {
  if (state === "live") return format(gettext("%(n)s s"), { n: (Math.min(socket.lag, 9900) / 1000).toFixed(1) });
  if (state === "quiet") return format(gettext("no update for %(n)s s"), { n: Math.round((Date.now() - socket.heardAt) / 1000) });
  if (state === "lost" || state === "paused") return format(gettext("data from %(time)s"), { time: clock(socket.dataAt) });
  return "";
}

function lostText(socket) {
  const wait = Math.max(0, Math.ceil((socket.retryAt - Date.now()) / 1000));
  return format(gettext("Connection lost at %(time)s. Everything below is from that moment. Trying again in %(n)s s."), {
    time: clock(socket.dataAt),
    n: wait,
  });
}

function silentText(socket) {
  return format(gettext("The scheduler has not run since %(time)s. What runs goes on; nothing new is decided."), {
    time: clock(socket.lastCycle),
  });
}
