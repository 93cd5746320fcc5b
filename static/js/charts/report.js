// @ts-check
/** The report's charts: held against guarantee, by unit and over time; held hours against idle share. */
import { text } from "../lib/dom.js";
import { format, gettext } from "../lib/i18n.js";

/** Options that keep figures here: no button that sends them to the maker of the library. */
const CONFIG = { displayModeBar: false, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", responsive: true, scrollZoom: false, doubleClick: "reset" };
const BAR_PX = 30;
/** Units with the most idle hours have their names beside their dots. */
const LABELLED = 3;
const NARROW_PX = 480;
/** What the begin of a step takes on the axis. */
const LABEL_PX = 120;

let loading;

/** Load the library once, then do what is to be done. */
export function whenLoaded(source, then) {
  if (globalThis.Plotly) return then();
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = source;
    script.addEventListener("load", resolve);
    script.addEventListener("error", reject);
    document.head.append(script);
  });
  return loading.then(then, () => {
    for (const plot of document.querySelectorAll("[data-plot]")) text(plot, gettext("The chart could not be loaded."));
  });
}

/** Draw one of the charts into its place. */
export function draw(plot, name, chart) {
  if (plot.hidden) return;
  const colors = palette(plot);
  const [traces, layout, label] = KINDS[name](chart, colors, plot.clientWidth);
  if (name === "units") plot.style.height = `${Math.max(160, 40 + BAR_PX * chart.units.length)}px`;
  globalThis.Plotly.react(plot, traces, { ...base(colors), ...layout }, CONFIG);
  plot.setAttribute("role", "img");
  plot.setAttribute("aria-label", label);
}

const KINDS = { units, idle, steps };

/** A pair of bars a unit: the guarantee as an outline, what was held in three parts inside it. */
function units(chart, colors) {
  const rows = [...chart.units].reverse();
  const names = rows.map((row) => row.key);
  const told = chart.guaranteed;
  const bar = (values, marker, name) => ({ type: "bar", orientation: "h", y: names, x: values, marker, name, width: 0.5, hovertemplate: "%{x:,.2f} h" });
  const traces = [
    bar(rows.map((row) => row.allocated - row.over_quota - idleWithin(row)), { color: colors.used }, told ? gettext("Within guarantee") : gettext("Held")),
    bar(rows.map(idleWithin), hatch(colors, colors.idleBg), gettext("Within guarantee, idle")),
    bar(rows.map((row) => row.over_quota - idleOver(row)), { color: colors.over }, gettext("Over quota")),
    bar(rows.map(idleOver), hatch(colors, colors.overWeak), gettext("Over quota, idle")),
  ].filter((trace) => trace.x.some((value) => value > 0));
  const outlines = told
    ? rows.map((row, at) => ({ type: "rect", x0: 0, x1: row.deserved, y0: at - 0.38, y1: at + 0.38, line: { color: colors.free, width: 1.2, dash: "dash" }, layer: "above" }))
    : [];
  const layout = {
    barmode: "stack",
    hovermode: "y unified",
    margin: { l: Math.min(190, 24 + 6.4 * Math.max(...rows.map((row) => width(row.name)))), r: 12, t: 4, b: 26 },
    xaxis: { rangemode: "tozero", gridcolor: colors.line2, zeroline: false, fixedrange: true, range: [0, 1.04 * Math.max(0.01, ...rows.map((row) => Math.max(row.allocated, row.deserved ?? 0)))] },
    yaxis: { type: "category", tickvals: names, ticktext: rows.map((row) => short(row.name)), fixedrange: true, ticks: "" },
    shapes: outlines,
  };
  return [traces, layout, inWords(chart)];
}

/** Idle time is drawn within the guarantee first: borrowed hours beyond it only as far as they must be. */
function idleWithin(row) {
  return Math.min(row.idle, row.allocated - row.over_quota);
}

function idleOver(row) {
  return Math.max(0, row.idle - idleWithin(row));
}

function idle(chart, colors, width) {
  const rows = chart.units.filter((row) => row.allocated > 0);
  const shares = rows.map((row) => (100 * row.idle) / row.allocated);
  const middle = rows.reduce((sum, row) => sum + row.allocated, 0) / Math.max(1, rows.length);
  const labelled = new Set([...rows].sort((one, other) => other.idle - one.idle).slice(0, width < NARROW_PX ? 1 : LABELLED).map((row) => row.key));
  const sides = rows.filter((row) => labelled.has(row.key)).sort((one, other) => one.allocated - other.allocated).map((row) => row.key);
  const line = (ends) => ({ type: "line", line: { color: colors.line, width: 1, dash: "dot" }, layer: "below", ...ends });
  const trace = {
    type: "scatter",
    mode: "markers+text",
    x: rows.map((row) => row.allocated),
    y: shares,
    text: rows.map((row) => (labelled.has(row.key) ? short(row.name) : "")),
    customdata: rows.map((row) => row.name),
    // Neighbors have their names on different sides.
    textposition: rows.map((row) => (sides.indexOf(row.key) % 2 ? "bottom center" : "top center")),
    cliponaxis: false,
    marker: { size: 10, color: rows.map((row) => colors.project(row.color)), line: { color: colors.surface, width: 1 } },
    hovertemplate: "%{customdata}<br>%{x:,.2f} h<br>%{y:.0f}%<extra></extra>",
  };
  const layout = {
    hovermode: "closest",
    margin: { l: 40, r: 30, t: 16, b: 30 },
    xaxis: { rangemode: "tozero", showgrid: false, zeroline: false, fixedrange: true, ticksuffix: " h" },
    yaxis: { range: [-6, 108], tickvals: [0, 25, 50, 75, 100], ticksuffix: "%", gridcolor: colors.line2, zeroline: false, fixedrange: true },
    shapes: [line({ xref: "paper", x0: 0, x1: 1, y0: 50, y1: 50 }), line({ x0: middle, x1: middle, yref: "paper", y0: 0, y1: 1 })],
  };
  const worst = rows.reduce((found, row) => (found && found.idle >= row.idle ? found : row), null);
  return [[trace], layout, worst ? format(gettext("The most idle hours were held by %(name)s: %(idle)s h."), { name: worst.name, idle: worst.idle.toFixed(2) }) : ""];
}

function steps(chart, colors, width) {
  const { labels, allocated, over_quota: over, idle: idleHours, deserved } = chart.steps;
  const within = allocated.map((value, at) => value - over[at]);
  const bar = (values, marker, name) => ({ type: "bar", x: labels, y: values, marker, name, hovertemplate: "%{y:,.2f} h" });
  const inIdle = idleHours.map((value, at) => Math.min(value, within[at]));
  const overIdle = idleHours.map((value, at) => Math.max(0, value - inIdle[at]));
  const traces = [
    bar(within.map((value, at) => value - inIdle[at]), { color: colors.used }, chart.guaranteed ? gettext("Within guarantee") : gettext("Held")),
    bar(inIdle, hatch(colors, colors.idleBg), gettext("Within guarantee, idle")),
    bar(over.map((value, at) => value - overIdle[at]), { color: colors.over }, gettext("Over quota")),
    bar(overIdle, hatch(colors, colors.overWeak), gettext("Over quota, idle")),
  ].filter((trace) => trace.y.some((value) => value > 0));
  if (chart.guaranteed) {
    traces.push({ type: "scatter", mode: "lines", x: labels, y: deserved, line: { shape: "hvh", color: colors.free, width: 1.5, dash: "dash" }, name: gettext("Guarantee"), hovertemplate: "%{y:,.2f} h" });
  }
  const layout = {
    barmode: "stack",
    bargap: labels.length > 60 ? 0 : 0.2,
    hovermode: "x unified",
    margin: { l: 40, r: 8, t: 8, b: 34 },
    xaxis: { type: "category", showgrid: false, nticks: Math.max(2, Math.min(10, Math.floor(width / LABEL_PX))), tickangle: 0, fixedrange: true, ticks: "outside", ticklen: 3, tickcolor: colors.line },
    yaxis: { rangemode: "tozero", gridcolor: colors.line2, zeroline: false, fixedrange: true },
  };
  return [traces, layout, inWords(chart)];
}

function base(colors) {
  return {
    uirevision: "report",
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { family: getComputedStyle(document.body).fontFamily, size: 10.5, color: colors.ink3 },
    showlegend: false,
    hoverlabel: { bgcolor: colors.surface, bordercolor: colors.line, font: { color: colors.ink } },
  };
}

function hatch(colors, ground) {
  return { color: ground, pattern: { shape: "/", size: 5, solidity: 0.3, fgcolor: ground === colors.idleBg ? colors.idleLine : colors.over, bgcolor: ground } };
}

function inWords(chart) {
  const sum = (name) => chart.units.reduce((total, row) => total + (row[name] ?? 0), 0).toFixed(2);
  return format(gettext("%(held)s hours were held, %(over)s of them over quota, %(idle)s idle; %(deserved)s were guaranteed."), {
    held: sum("allocated"),
    over: sum("over_quota"),
    idle: sum("idle"),
    deserved: sum("deserved"),
  });
}

/** Wide characters take two places. */
function width(name) {
  return [...short(name)].reduce((sum, letter) => sum + (letter.charCodeAt(0) > 0x2e80 ? 2 : 1), 0);
}

function short(name) {
  return name.length > 26 ? `${name.slice(0, 25)}…` : name;
}

/** Theme colors as the browser resolves them. */
function palette(host) {
  const probe = document.createElement("i");
  host.parentElement.append(probe);
  const read = (value) => {
    probe.style.color = value;
    return getComputedStyle(probe).color;
  };
  const token = (name) => read(`var(${name})`);
  const hues = Array.from({ length: 9 }, (_none, number) => {
    probe.className = number ? `pc${number}` : "";
    return number ? token("--c") : token("--used");
  });
  probe.className = "";
  const colors = {
    used: token("--used"),
    idleBg: token("--idle-bg"),
    idleLine: token("--idle-line"),
    over: token("--over-rail"),
    overWeak: token("--over-weak"),
    free: token("--free"),
    ink: token("--ink"),
    ink3: token("--ink-3"),
    line: token("--line"),
    line2: token("--line-2"),
    surface: token("--surface"),
    project: (number) => hues[number] ?? hues[0],
  };
  probe.remove();
  return colors;
}
