// The page's copy of the state: snapshots, deltas, gaps.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Store } from "../../static/js/live/store.js";

const snap = { t: "snap", stream: "a", seq: 7, ts: 1, gpu: { 1: [[5, 1000, 0]], 2: [] }, kpi: { held: 1000 } };

test("a snapshot is the whole state", () => {
  const store = new Store();
  assert.deepEqual([...store.take(snap).keys()], ["gpu", "kpi"]);
  assert.deepEqual(store.parts.kpi, { held: 1000 });
});

test("a delta changes the GPUs that it names and leaves the others", () => {
  const store = new Store();
  store.take(snap);
  const changed = store.take({ t: "d", stream: "a", seq: 8, gpu: { 2: [[6, 90, 2]] } });
  assert.deepEqual(changed.get("gpu"), ["2"]);
  assert.deepEqual(store.parts.gpu, { 1: [[5, 1000, 0]], 2: [[6, 90, 2]] });
});

test("a null takes an entry away", () => {
  const store = new Store();
  store.take({ ...snap, wl: { 5: ["a"], 6: ["b"] } });
  store.take({ t: "d", stream: "a", seq: 8, wl: { 6: null } });
  assert.deepEqual(Object.keys(store.parts.wl), ["5"]);
});

test("a missing delta, or one of another stream, asks for the whole state", () => {
  const store = new Store();
  store.take(snap);
  assert.equal(store.take({ t: "d", stream: "a", seq: 9, kpi: {} }), null);
  assert.equal(store.take({ t: "d", stream: "b", seq: 8, kpi: {} }), null);
  assert.equal(store.seq, 7);
});

test("a delta that is already known changes nothing", () => {
  const store = new Store();
  store.take(snap);
  assert.equal(store.take({ t: "d", stream: "a", seq: 7, kpi: { held: 0 } }).size, 0);
  assert.equal(store.parts.kpi.held, 1000);
});
