/** B42: gaps stay gaps, what is no number is null, points are in order, without doubles, bounded. */
import assert from "node:assert/strict";
import test from "node:test";
import { MOST_POINTS, withGaps } from "../../static/js/charts/gaps.js";

const FIVE_S = 5000;
const TEN = Date.UTC(2026, 10, 30, 10, 0);
const minutes = (n) => TEN + n * 60_000;

/** A reading each five seconds from 10:00 to 10:30, but none from 10:05 to 10:20. */
function readings() {
  const at = [];
  for (let ms = minutes(0); ms <= minutes(30); ms += FIVE_S) if (ms <= minutes(5) || ms >= minutes(20)) at.push(ms);
  return { at, busy: at.map(() => 40) };
}

test("a stretch without readings is a hole, neither a line nor zeros", () => {
  const { at, busy } = readings();
  const found = withGaps(at, { busy });
  const inside = found.at.map((ms, index) => [ms, found.busy[index]]).filter(([ms]) => ms > minutes(5) && ms < minutes(20));
  assert.deepEqual(inside, [[minutes(5) + 1, null]]);
  assert.equal(found.busy.filter((value) => value === 0).length, 0);
});

test("what is no finite number is no value, and the rest stands", () => {
  const found = withGaps([0, FIVE_S, 2 * FIVE_S], { busy: [1, Number.NaN, 3], load: [1, Infinity, 3] });
  assert.deepEqual(found.busy, [1, null, 3]);
  assert.deepEqual(found.load, [1, null, 3]);
});

test("points come into order, and of two of one time the later told holds", () => {
  const found = withGaps([2 * FIVE_S, 0, FIVE_S, FIVE_S], { busy: [3, 1, 9, 2] });
  assert.deepEqual(found.at, [0, FIVE_S, 2 * FIVE_S]);
  assert.deepEqual(found.busy, [1, 2, 3]);
});

test("the seam between history and what comes live has no double", () => {
  const { at, busy } = readings();
  const live = [at.at(-1), at.at(-1) + FIVE_S];
  const found = withGaps([...at, ...live], { busy: [...busy, 50, 60] });
  assert.equal(new Set(found.at).size, found.at.length);
  assert.deepEqual(found.busy.slice(-2), [50, 60]);
});

test("an hour and more of live readings keeps a bounded number of points", () => {
  const at = Array.from({ length: 3 * MOST_POINTS }, (_, index) => index * FIVE_S);
  const found = withGaps(at, { busy: at });
  assert.equal(found.at.length, MOST_POINTS);
  assert.equal(found.at.at(-1), at.at(-1));
});

test("without points there is nothing", () => {
  assert.deepEqual(withGaps([], { busy: [] }), { at: [], busy: [] });
});
