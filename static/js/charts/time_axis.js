// @ts-check
/** A time axis of a chart: as many marks as can be told apart, with seconds where minutes would repeat. */

const MARKS = 6;
/** Up to here the marks may lie less than a minute apart. */
const WITH_SECONDS_MS = 6 * 60 * 1000;

/** What Plotly needs for the marks between two instants in milliseconds. */
export function timeMarks(from, to) {
  return { nticks: MARKS, tickformat: to - from <= WITH_SECONDS_MS ? "%H:%M:%S" : "%H:%M", hoverformat: "%H:%M:%S" };
}

/** Plotly takes times as they are written: write them in the reader's zone. */
export function local(ms) {
  const at = new Date(ms);
  return new Date(ms - at.getTimezoneOffset() * 60000).toISOString().slice(0, 23);
}
