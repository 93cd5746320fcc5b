// @ts-check
/** Series for charts: in order, without doubles, bounded, and with a hole where nothing was measured. Pure. */

/** No more points of a series are kept in a page. */
export const MOST_POINTS = 2000;
/** So many times the usual distance between two points is a gap. */
const GAP = 3;

/**
 * Put columns of values into the order of their times. Of two points of one time the later told holds; what is
 * no finite number is no value; and in a gap stands an instant without values, so that no line crosses it.
 * @param {number[]} at milliseconds
 * @param {Record<string, (number | null)[]>} columns
 * @param {number} [mostMs] further apart is a gap; without it, three times the middle of the distances
 */
export function withGaps(at, columns, mostMs) {
  const names = Object.keys(columns);
  const rows = new Map();
  at.forEach((ms, index) => {
    if (Number.isFinite(ms)) rows.set(ms, names.map((name) => finite(columns[name][index])));
  });
  const times = [...rows.keys()].sort((one, other) => one - other).slice(-MOST_POINTS);
  const most = mostMs ?? GAP * middle(times.slice(1).map((ms, index) => ms - times[index]));
  const found = { at: [], ...Object.fromEntries(names.map((name) => [name, []])) };
  const add = (ms, values) => {
    found.at.push(ms);
    names.forEach((name, index) => found[name].push(values[index]));
  };
  times.forEach((ms, index) => {
    if (index && ms - times[index - 1] > most) add(times[index - 1] + 1, names.map(() => null));
    add(ms, rows.get(ms));
  });
  return found;
}

function finite(value) {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function middle(values) {
  return values.length ? [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] : 0;
}
