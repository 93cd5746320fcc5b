// @ts-check
/** The last 24 hours: computing and idle stacked, capacity dashed, reclaims on top. Plotly, when seen. */
import { text } from "../lib/dom.js";
import { clock, gpu } from "../lib/format.js";
import { format, gettext } from "../lib/i18n.js";
import { local, timeMarks } from "./time_axis.js";

const DAY_MS = 24 * 3600 * 1000;

/** Options that keep figures here: no button that sends them to the maker of the library. */
const CONFIG = { displayModeBar: false, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", responsive: true, scrollZoom: false, doubleClick: "reset" };

export class DayChart {
  constructor(panel, day, source) {
    this.panel = panel;
    this.plot = panel.querySelector("[data-plot]");
    this.day = day;
    this.source = source;
    this.wanted = false;
    new IntersectionObserver(([entry]) => entry.isIntersecting && this.#load(), { rootMargin: "200px" }).observe(panel);
    addEventListener("theme", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Show another day, or the same with newer points. */
  show(day) {
    this.day = day;
    this.draw();
  }

  /** Draw, once the library is there. */
  draw() {
    if (!globalThis.Plotly || !this.wanted || document.hidden) return;
    const colors = palette(this.plot);
    globalThis.Plotly.react(this.plot, traces(this.day, colors), look(this.day, colors), CONFIG);
    this.plot.setAttribute("role", "img");
    this.plot.setAttribute("aria-label", inWords(this.day));
    const young = this.day.to - this.day.from < DAY_MS - 60000;
    const since = format(gettext("Since %(time)s"), { time: clock(this.day.from).slice(0, 5) });
    text(document.querySelector("[data-day-title]"), young ? since : gettext("Last 24 hours"));
  }

  #load() {
    if (this.wanted) return;
    this.wanted = true;
    const script = document.createElement("script");
    script.src = this.source;
    script.addEventListener("load", () => this.draw());
    script.addEventListener("error", () => text(this.plot, gettext("The chart could not be loaded.")));
    document.head.append(script);
  }
}

function traces(day, colors) {
  const x = day.at.map(local);
  const held = day.held.map((value) => value / 1000);
  const computing = day.held.map((value, index) => (value - day.idle[index]) / 1000);
  const shape = { shape: "hv" };
  const labels = (name, values) => ({ name, customdata: values.map((value) => gpu(Math.round(value * 1000))), hovertemplate: "%{customdata}" });
  return [
    { x, y: computing, type: "scatter", mode: "lines", line: { ...shape, width: 1.6, color: colors.used }, fill: "tozeroy", fillcolor: colors.usedWeak, ...labels(gettext("Computing"), computing) },
    {
      x,
      y: held,
      type: "scatter",
      mode: "lines",
      line: { ...shape, width: 1.2, color: colors.ink2 },
      fill: "tonexty",
      fillcolor: colors.idleBg,
      fillpattern: { shape: "/", size: 5, solidity: 0.3, fgcolor: colors.idleLine, bgcolor: colors.idleBg },
      ...labels(gettext("Allocated"), held),
    },
    {
      x: day.reclaims.map(([ms]) => local(ms)),
      y: day.reclaims.map(() => (day.capacity / 1000) * 1.07),
      type: "scatter",
      mode: "markers",
      cliponaxis: false,
      marker: { symbol: "triangle-down", size: 7, color: colors.evict },
      name: gettext("Reclaim"),
      hovertemplate: gettext("Reclaim"),
    },
  ];
}

function look(day, colors) {
  const capacity = day.capacity / 1000;
  return {
    uirevision: "day",
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { family: getComputedStyle(document.body).fontFamily, size: 10.5, color: colors.ink3 },
    margin: { l: 32, r: 8, t: 8, b: 24 },
    showlegend: false,
    hovermode: "x unified",
    hoverlabel: { bgcolor: colors.surface, bordercolor: colors.line, font: { color: colors.ink } },
    xaxis: { type: "date", range: [local(day.from), local(day.to)], showgrid: false, zeroline: false, ticks: "outside", ticklen: 3, tickcolor: colors.line, ...timeMarks(day.from, day.to), fixedrange: true },
    yaxis: { range: [0, capacity * 1.12], gridcolor: colors.line2, zeroline: false, tickvals: [0, 1, 2, 3, 4].map((n) => (capacity * n) / 4), fixedrange: true },
    shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: capacity, y1: capacity, line: { color: colors.ink3, width: 1, dash: "dot" } }],
  };
}

/** Theme colors as the browser resolves them. */
function palette(host) {
  const probe = document.createElement("i");
  host.append(probe);
  const read = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const colors = { used: read("--used"), usedWeak: read("--used-weak"), idleBg: read("--idle-bg"), idleLine: read("--idle-line"), ink: read("--ink"), ink2: read("--ink-2"), ink3: read("--ink-3"), line: read("--line"), line2: read("--line-2"), evict: read("--evict"), surface: read("--surface") };
  probe.remove();
  return colors;
}

function inWords(day) {
  const last = day.held.length - 1;
  return format(gettext("Over the last hours between %(low)s and %(high)s GPUs were allocated; now %(now)s, of which %(idle)s idle. %(n)s reclaims."), {
    low: gpu(Math.min(...day.held)),
    high: gpu(Math.max(...day.held)),
    now: gpu(day.held[last]),
    idle: gpu(day.idle[last]),
    n: day.reclaims.length,
  });
}
