/** The quota page's bars: narrowed to some units, and in percent of the guarantee. */
import assert from "node:assert/strict";
import test from "node:test";
import { choose, ofGuarantee } from "../../static/js/live/quota_bars.js";

const row = (name, dept, more = {}) => ({ id: 1, name, dept, known: 1, held: 0, idle: 0, over: 0, quota: 1000, limit: null, waiting: 0, ...more });
const ROWS = [row("A", 1), row("a1", 0, { over: 500 }), row("B", 1), row("b1", 0, { waiting: 2, held: 250 }), row("b2", 0, { idle: 100 })];
const named = (only) => choose(ROWS, only).map((each) => each.name);

test("narrowed, each unit stands under its department", () => {
  assert.deepEqual(named(""), ["A", "a1", "B", "b1", "b2"]);
  assert.deepEqual(named("borrowing"), ["A", "a1"]);
  assert.deepEqual(named("short"), ["B", "b1"]);
  assert.deepEqual(named("idle"), ["B", "b2"]);
});

test("in percent the guarantee is 100, whatever it is", () => {
  const shown = ofGuarantee(row("x", 0, { quota: 8000, held: 9500, over: 1500, idle: 800, limit: 12_000 }));
  assert.deepEqual([shown.held, shown.over, shown.idle, shown.limit, shown.quota], [118_750, 18_750, 10_000, 150_000, 100_000]);
});

test("without a guarantee there is nothing to be a part of", () => {
  const shown = ofGuarantee(row("x", 0, { quota: 0, held: 5000, over: 5000 }));
  assert.deepEqual([shown.held, shown.quota, shown.limit], [0, 0, null]);
  assert.ok(shown.over > 0);
});
