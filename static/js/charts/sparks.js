// @ts-check
/** Sparklines of the tiles: our own SVG, drawn from the day's columns. */
import { svg } from "../lib/dom.js";

const WIDTH = 54;
const POINTS = 54;

/** Draw the sparkline of each `[data-spark]` under `root`. */
export function showSparks(root, day) {
  for (const node of root.querySelectorAll("[data-spark]")) {
    const values = sample(day, node.dataset.spark);
    node.replaceChildren(...(values.length > 1 ? draw(values) : []));
  }
}

/** One series at evenly spaced instants. */
export function sample(day, name) {
  const { at, held, idle } = day;
  if (at.length < 2 || day.to <= day.from) return [];
  const column = name === "computing" ? held.map((value, index) => value - idle[index]) : day[name];
  const values = [];
  let index = 0;
  for (let step = 0; step < POINTS; step += 1) {
    const ms = day.from + ((day.to - day.from) * step) / (POINTS - 1);
    while (index + 1 < at.length && at[index + 1] <= ms) index += 1;
    values.push(column[index]);
  }
  return values;
}

function draw(values) {
  const low = Math.min(...values);
  const spread = Math.max(...values) - low || 1;
  const points = values.map((value, index) => [(index / (values.length - 1)) * WIDTH, 20 - ((value - low) / spread) * 18].map((n) => n.toFixed(1)));
  const [x, y] = points.at(-1);
  return [svg("polyline", { points: points.map((point) => point.join()).join(" ") }), svg("circle", { cx: x, cy: y, r: 2 })];
}
