// @ts-check
/** The quota page's bars, or the large ones of one unit, kept current. */
import { embedded } from "../lib/dom.js";
import { QuotaBars } from "./quota_bars.js";
import { LiveSocket } from "./socket.js";
import { makeStatus } from "./status.js";
import { Store } from "./store.js";

export function start(root) {
  const store = new Store(embedded("page-state").parts);
  const { pool, department, project, unit, only } = root.dataset;
  const alone = department || project;
  const wanted = (row) => !alone || (row.dept ? row.id === Number(department) : row.id === Number(project));
  const size = alone ? "large" : "small";
  const bars = new QuotaBars(root.querySelector("[data-quota]"), store, { prefix: "qp", percent: unit === "pct", only, size, wanted });
  const socket = new LiveSocket({ store, topics: ["quota", "kpi"], pool, onChange: () => bars.show(), onState: makeStatus() });
  document.querySelector("[data-live-state]")?.addEventListener("click", () => socket.togglePause());
  document.querySelector("[data-retry]")?.addEventListener("click", () => socket.retry());
  socket.start();
}
