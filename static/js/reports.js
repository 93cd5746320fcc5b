// @ts-check
/** The consumption page: charts, the running period's figures, printing. */
import { el, embedded, text } from "./lib/dom.js";
import { gettext } from "./lib/i18n.js";
import { draw, whenLoaded } from "./charts/report.js";

const REDRAW_MS = 5000;
const RETRY_MS = 5000;

export function start(root) {
  const page = new ReportPage(root);
  document.querySelector("[data-print]")?.addEventListener("click", () => print());
  page.draw();
  if (root.dataset.liveQuery) page.listen();
}

class ReportPage {
  constructor(root) {
    this.root = root;
    this.chart = embedded("report-chart");
    this.drawnAt = 0;
    for (const plot of root.querySelectorAll("[data-plot]")) addTable(plot, this);
    addEventListener("theme", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    addEventListener("beforeprint", () => this.draw("light"));
    addEventListener("afterprint", () => this.draw());
  }

  draw(theme = "") {
    whenLoaded(this.root.dataset.plotly, () => {
      document.documentElement.classList.toggle("paper", theme === "light");
      for (const plot of this.root.querySelectorAll("[data-plot]")) draw(plot, plot.dataset.plot, this.chart);
      this.drawnAt = Date.now();
    });
  }

  /** Take the figures of the running period as they grow. */
  listen() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/ws/report/?${this.root.dataset.liveQuery}&language=${document.documentElement.lang}`);
    socket.addEventListener("message", (event) => this.#take(JSON.parse(event.data)));
    socket.addEventListener("close", (event) => {
      if (event.code !== 4401) setTimeout(() => this.listen(), RETRY_MS);
    });
    addEventListener("pagehide", () => socket.close(), { once: true });
  }

  #take(state) {
    if (state.t !== "report") return;
    text(document.querySelector('[data-bind="to"]'), state.to);
    for (const [name, [value, about, change]] of Object.entries(state.tiles)) {
      text(this.root.querySelector(`[data-tile="${name}"]`), value);
      text(this.root.querySelector(`[data-tile-about="${name}"]`), about);
      text(this.root.querySelector(`[data-tile-change="${name}"]`), change);
    }
    for (const row of this.root.querySelectorAll("[data-row]")) {
      const cells = row.dataset.row === "total" ? state.total : state.rows[row.dataset.row];
      const hints = state.hints[row.dataset.row] ?? {};
      for (const cell of cells ? row.querySelectorAll("[data-cell]") : []) {
        text(cell, cells[cell.dataset.cell]);
        if (hints[cell.dataset.cell]) cell.title = hints[cell.dataset.cell];
      }
    }
    document.querySelector("[data-words]")?.replaceChildren(...state.sentences.map(unitInWords));
    this.chart = state.chart;
    if (!document.hidden && Date.now() - this.drawnAt > REDRAW_MS) this.draw();
  }
}

/** What a unit did, in words. */
function unitInWords([name, color, said]) {
  return el("li", {}, el("span", { class: `pc${color}` }, el("i", { class: "dot" }), " ", el("b", {}, name), " ", said));
}

/** A chart's numbers as a table, for those who can't see it. */
function addTable(plot, page) {
  const button = el("button", { class: "more", type: "button", "aria-pressed": "false" }, gettext("Table"));
  const holder = el("div", { class: "scroll chart-table", hidden: "" });
  plot.after(holder);
  plot.parentElement.querySelector(".ph").append(button);
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!shown));
    plot.hidden = !shown;
    holder.hidden = shown;
    if (!shown) holder.replaceChildren(table(plot.dataset.plot, page.chart));
  });
}

function table(name, chart) {
  const heads = [name === "steps" ? gettext("Begin") : gettext("Unit"), gettext("Allocation h"), gettext("Over quota h"), gettext("Idle h"), gettext("Guarantee h")];
  const rows = name === "steps" ? stepRows(chart.steps) : chart.units.map((unit) => [unit.name, unit.allocated, unit.over_quota, unit.idle, unit.deserved]);
  return el(
    "table",
    { class: "tb" },
    el("thead", {}, el("tr", {}, ...heads.map((head, at) => el("th", at ? { class: "r" } : {}, head)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((value, at) => el("td", at ? { class: "r" } : {}, at ? hours(value) : value))))),
  );
}

function stepRows(steps) {
  return steps.labels.map((label, at) => [label, steps.allocated[at], steps.over_quota[at], steps.idle[at], steps.deserved[at]]);
}

/** Hours as the page prints them. */
function hours(value) {
  if (value === null || value === undefined) return "–";
  const places = Math.abs(value) >= 100 ? 1 : 2;
  return value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
}

