// @ts-check
/** Starts the module that each element names in data-module. */
import { start as frame } from "./ui/frame.js";

const MODULES = {
  frame: async () => ({ start: frame }),
  overview: () => import("./live/overview.js"),
  map: () => import("./live/map_page.js"),
  copy: () => import("./ui/copy.js"),
  "quota-editor": () => import("./ui/quota_editor.js"),
  quotas: () => import("./live/quotas.js"),
  chosen: () => import("./ui/chosen.js"),
  newer: () => import("./ui/newer.js"),
  rows: () => import("./ui/rows.js"),
  filters: () => import("./ui/filters.js"),
  logs: () => import("./ui/logs.js"),
  "send-now": async () => ({ start: (form) => form.requestSubmit() }),
  metrics: () => import("./charts/metrics.js"),
  workload: () => import("./ui/workload.js"),
  again: () => import("./ui/again.js"),
  service: () => import("./charts/service.js"),
  playground: () => import("./ui/playground.js"),
  report: () => import("./reports.js"),
  proof: () => import("./proof.js"),
  "proof-choice": () => import("./ui/proof_choice.js"),
  savings: () => import("./savings.js"),
  "report-form": () => import("./report_form.js"),
};

for (const element of document.querySelectorAll("[data-module]")) {
  const load = MODULES[element.dataset.module];
  load().then((module) => module.start(element));
}
