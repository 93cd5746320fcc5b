// @ts-check
/** Times in the reader's zone, and ages that grow. */
import { text } from "../lib/dom.js";
import { clock, dateTime, duration } from "../lib/format.js";

/** Leave the browser's zone for the server, write times in it, and keep ages current. */
export function start() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone) document.cookie = `tidegate_zone=${zone};path=/;max-age=31536000;samesite=lax`;
  showTimes(document);
  setInterval(() => showAges(document), 1000);
}

/** Write each `<time data-ms>` under `root` in the reader's zone. */
export function showTimes(root) {
  for (const node of root.querySelectorAll("time[data-ms]")) {
    const at = Number(node.dataset.ms);
    text(node, "full" in node.dataset ? dateTime(at) : clock(at));
    node.title = new Date(at).toISOString();
  }
}

function showAges(root) {
  if (document.body.classList.contains("stale")) return;
  for (const node of root.querySelectorAll("[data-since]")) {
    if (node.dataset.since) text(node, duration((Date.now() - Number(node.dataset.since)) / 1000));
  }
}
