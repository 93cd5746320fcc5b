// @ts-check
/** A service's page: wanted against answering, load against target, latency, on one time axis. */
import { text } from "../lib/dom.js";
import { gettext } from "../lib/i18n.js";
import { start as again } from "../ui/again.js";
import { withGaps } from "./gaps.js";
import { local, timeMarks } from "./time_axis.js";

const MINUTE_MS = 60_000;
const CONFIG = { displayModeBar: false, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", responsive: true };

export function start(place) {
  const script = document.createElement("script");
  script.src = place.dataset.plotly;
  script.addEventListener("load", () => draw(place));
  script.addEventListener("error", () => text(place.querySelector("[data-plot]"), gettext("The chart could not be loaded.")));
  document.head.append(script);
  again(place, () => draw(place));
  addEventListener("theme", () => draw(place));
}

function draw(place) {
  const plot = place.querySelector("[data-plot]");
  const source = place.querySelector("#service-series");
  if (!globalThis.Plotly || !plot || !source) return;
  const series = JSON.parse(source.textContent);
  if (!series.at.length) return;
  const colors = palette(plot);
  globalThis.Plotly.react(plot, traces(series, colors), look(series, colors), CONFIG);
  plot.setAttribute("role", "img");
  plot.setAttribute("aria-label", gettext("Replicas wanted, there and answering, load, requests a second and latency over the last hour"));
}

function traces(series, colors) {
  const kept = withGaps(series.at, { replicas: series.replicas, ready: series.ready, desired: series.desired, value: series.value, rate: series.rate });
  const x = kept.at.map(local);
  const line = (name, y, color, axis, more = {}) => ({ x, y, name, type: "scatter", mode: "lines", yaxis: axis, line: { color, width: 1.6, shape: "hv", ...more } });
  return [
    { ...line(gettext("There"), kept.replicas, colors.line, "y", { width: 0 }), fill: "tozeroy", fillcolor: colors.line2 },
    { ...line(gettext("Answering"), kept.ready, colors.used, "y"), fill: "tozeroy", fillcolor: colors.tint },
    line(gettext("Wanted"), kept.desired, colors.accent, "y", { dash: "dot" }),
    line(gettext("Load"), kept.value, colors.ink2, "y2", { shape: "linear" }),
    line(gettext("Target of one"), x.map(() => series.target[0]), colors.ink3, "y2", { dash: "dash", width: 1 }),
    line(gettext("Requests/s"), kept.rate, colors.used, "y3", { shape: "linear" }),
    ...latencies(series, colors, line),
  ];
}

/** By minute, so with times of their own; a minute without an answer is a gap. */
function latencies(series, colors, line) {
  const kept = withGaps(series.minutes, { p50: series.p50, p95: series.p95 }, MINUTE_MS);
  const x = kept.at.map(local);
  const markers = { mode: "lines+markers", marker: { size: 4 } };
  return [
    { ...line(gettext("Latency p50, ms"), kept.p50, colors.ink2, "y4", { shape: "linear" }), x, ...markers },
    { ...line(gettext("Latency p95, ms"), kept.p95, colors.over, "y4", { shape: "linear" }), x, ...markers },
  ];
}

function look(series, colors) {
  const axis = { gridcolor: colors.line2, zeroline: false, fixedrange: true, rangemode: "tozero", nticks: 4 };
  return {
    uirevision: "service",
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { family: getComputedStyle(document.body).fontFamily, size: 10.5, color: colors.ink3 },
    margin: { l: 36, r: 8, t: 24, b: 24 },
    showlegend: true,
    legend: { orientation: "h", y: 1.06, yanchor: "bottom", x: 0 },
    annotations: titles(colors),
    hovermode: "x unified",
    hoverlabel: { bgcolor: colors.surface, bordercolor: colors.line, font: { color: colors.ink } },
    xaxis: { type: "date", showgrid: false, ...timeMarks(series.at[0], series.at.at(-1)), fixedrange: true, anchor: "y4" },
    yaxis: { ...axis, domain: [0.79, 1], dtick: 1 },
    yaxis2: { ...axis, domain: [0.53, 0.74] },
    yaxis3: { ...axis, domain: [0.27, 0.48] },
    yaxis4: { ...axis, domain: [0, 0.22] },
  };
}

/** What each of the four parts shows, above it. */
function titles(colors) {
  const parts = [[gettext("Replicas"), 1], [gettext("Load"), 0.74], [gettext("Requests/s"), 0.48], [gettext("Latency, ms"), 0.22]];
  return parts.map(([title, y]) => ({ text: title, x: 0, y, xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", showarrow: false, font: { size: 10.5, color: colors.ink2 } }));
}

function palette(host) {
  const probe = document.createElement("i");
  host.append(probe);
  const read = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const colors = { used: read("--used"), tint: read("--used-weak"), accent: read("--accent"), over: read("--over-rail"), ink: read("--ink"), ink2: read("--ink-2"), ink3: read("--ink-3"), line: read("--line"), line2: read("--line-2"), surface: read("--surface") };
  probe.remove();
  return colors;
}
