// @ts-check
/** What a workload reports of itself: a chart for each number, on one time axis, shaded between its runs. */
import { el, text } from "../lib/dom.js";
import { format, gettext } from "../lib/i18n.js";
import { local, timeMarks } from "./time_axis.js";

const CONFIG = { displayModeBar: false, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", responsive: true };
const EVERY_MS = 5000;

export function start(panel) {
  const host = panel.querySelector("[data-plots]");
  let found = null;
  const show = () => {
    if (globalThis.Plotly && found) draw(host, found);
  };
  const read = async () => {
    const answer = await fetch(panel.dataset.address).catch(() => null);
    if (!answer?.ok) return;
    found = await answer.json();
    show();
  };
  const script = document.createElement("script");
  script.src = panel.dataset.plotly;
  script.addEventListener("load", show);
  script.addEventListener("error", () => text(host, gettext("The chart could not be loaded.")));
  document.head.append(script);
  read();
  setInterval(() => {
    if (!document.hidden) read();
  }, EVERY_MS);
  addEventListener("theme", show);
}

function draw(host, found) {
  const series = [...(found.steps.length ? [{ name: "", points: found.steps }] : []), ...found.metrics];
  const times = series.flatMap((each) => each.points.map((point) => Date.parse(point.at)));
  const span = [Math.min(...times), Math.max(...times)];
  const gaps = gapsOf(found.runs, span);
  const colors = palette(host);
  series.forEach((each, index) => {
    const plot = host.children[index] ?? host.appendChild(el("div", { class: "plot" }));
    const name = each.name || gettext("Step");
    globalThis.Plotly.react(plot, [trace(each, gaps, colors)], look(name, span, gaps, colors), CONFIG);
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", format(gettext("%(name)s over time; the last value is %(value)s"), { name, value: each.points.at(-1).value }));
  });
}

/** A pause between two runs is a gap of the line too. */
function trace(series, gaps, colors) {
  const x = [], y = [];
  for (const point of series.points) {
    const at = Date.parse(point.at);
    const before = x.length ? x.at(-1) : at;
    if (gaps.some(([from, to]) => before <= from && at >= to)) {
      x.push(at);
      y.push(null);
    }
    x.push(at);
    y.push(point.value);
  }
  return { x: x.map(local), y, type: "scatter", mode: x.length > 40 ? "lines" : "lines+markers", marker: { size: 4 }, line: { color: colors.accent, width: 1.5, shape: series.name ? "linear" : "hv" }, connectgaps: false };
}

function look(name, span, gaps, colors) {
  return {
    uirevision: name,
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { family: getComputedStyle(document.body).fontFamily, size: 10.5, color: colors.ink3 },
    margin: { l: 44, r: 8, t: 22, b: 24 },
    showlegend: false,
    annotations: [{ text: name.replaceAll("<", "&lt;"), x: 0, y: 1, xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", showarrow: false, font: { size: 11, color: colors.ink2 } }],
    hovermode: "x unified",
    hoverlabel: { bgcolor: colors.surface, bordercolor: colors.line, font: { color: colors.ink } },
    shapes: gaps.map(([from, to]) => ({ type: "rect", xref: "x", yref: "paper", x0: local(from), x1: local(to), y0: 0, y1: 1, fillcolor: colors.shade, line: { width: 0 }, layer: "below" })),
    xaxis: { type: "date", showgrid: false, range: span[0] === span[1] ? undefined : span.map(local), ...timeMarks(span[0], span[1]), fixedrange: true },
    yaxis: { gridcolor: colors.line2, zeroline: false, fixedrange: true, nticks: 5 },
  };
}

/** From the end of each run to the begin of the next, where the charts show it. */
function gapsOf(runs, span) {
  const gaps = [];
  runs.forEach((run, index) => {
    const next = runs[index + 1];
    if (!next || !run.until) return;
    const from = Math.max(span[0], Date.parse(run.until)), to = Math.min(span[1], Date.parse(next.since));
    if (to > from) gaps.push([from, to]);
  });
  return gaps;
}

function palette(host) {
  const probe = host.appendChild(document.createElement("i"));
  const read = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const colors = { accent: read("--accent"), shade: read("--pending-weak"), ink: read("--ink"), ink2: read("--ink-2"), ink3: read("--ink-3"), line: read("--line"), line2: read("--line-2"), surface: read("--surface") };
  probe.remove();
  return colors;
}
