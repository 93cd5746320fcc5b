// Where slices are on a bar, and which labels fit.
import assert from "node:assert/strict";
import { test } from "node:test";
import { heat, label, layout, place } from "../../static/js/live/geometry.js";
import { axisEnd } from "../../static/js/live/quota_bars.js";

const bar = { width: 100, height: 24 };

test("slices lie side by side in their order, widths by share", () => {
  const [a, b] = place([[1, 250, 0], [2, 500, 0]], bar);
  assert.equal(a.x, 0);
  assert.equal(b.x, 25);
  assert.ok(Math.abs(b.width - 48.8) < 1e-9);
});

test("a full bar has no gap at its end", () => {
  const slices = place([[1, 500, 0], [2, 500, 0]], bar);
  assert.equal(slices[1].x + slices[1].width, 100);
});

test("density follows the number of nodes", () => {
  assert.deepEqual([1, 8, 17, 65].map((nodes) => layout(nodes, nodes === 1 ? 1 : 8).density), ["large", "comfortable", "compact", "dense"]);
});

test("a label is cut where it does not fit, and left out where a stump would say nothing", () => {
  assert.equal(label("train-1", 60), "train-1");
  assert.equal(label("sft-nightly", 64), "sft-night".slice(0, 8) + "…");
  assert.equal(label("sft-nightly", 38), "");
});

test("the ramp has its ends at 0 and 1000", () => {
  assert.match(heat(0), /--u1\) 0%, var\(--u0/);
  assert.match(heat(1000), /--u3\) 100%, var\(--u2/);
  assert.equal(heat(null), "");
});

test("a limit far beyond all else does not squash the rest", () => {
  const rows = [{ held: 750, quota: 750, limit: 760 }, { held: 0, quota: 250, limit: 64000 }];
  assert.equal(axisEnd(rows), 800);
});

test("eight bars fit a phone without scrolling", () => {
  const sizes = layout(1, 8, 360);
  assert.ok(sizes.narrow);
  assert.equal(sizes.width, 360);
  assert.ok(sizes.x(7) + sizes.bar.width <= 360 - 40);
  assert.ok(sizes.bar.width > 20);
});
