// @ts-check
/** The quota page's bars, kept current. */
import { embedded } from "../lib/dom.js";
import { QuotaBars } from "./quota_bars.js";
import { LiveSocket } from "./socket.js";
import { makeStatus } from "./status.js";
import { Store } from "./store.js";

export function start(root) {
  const store = new Store(embedded("page-state").parts);
  const bars = new QuotaBars(root.querySelector("[data-quota]"), store, { prefix: "qp", percent: root.dataset.unit === "pct", only: root.dataset.only });
  const socket = new LiveSocket({ store, topics: ["quota", "kpi"], pool: root.dataset.pool, onChange: () => bars.show(), onState: makeStatus() });
  document.querySelector("[data-live-state]")?.addEventListener("click", () => socket.togglePause());
  document.querySelector("[data-retry]")?.addEventListener("click", () => socket.retry());
  socket.start();
}
