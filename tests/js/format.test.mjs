// Amounts in the browser: the same table as on the server.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { duration, gpu, money, percent, quota } from "../../static/js/lib/format.js";

const table = JSON.parse(readFileSync(new URL("../dashboard/amounts.json", import.meta.url), "utf8"));

for (const [what, mgpu, text] of table) test(`an amount: ${what}`, () => assert.equal(gpu(mgpu), text));

test("a bound has no needless places, and none is no limit", () => {
  assert.equal(quota(24000), "24");
  assert.equal(quota(760), "0.76");
  assert.equal(quota(null), "no limit");
});

test("durations in their largest unit", () => {
  assert.deepEqual([59, 60, 2460, 11520, 777600].map(duration), ["59 s", "1 min", "41 min", "3 h 12 min", "9 d"]);
});

test("percent and money", () => {
  assert.equal(percent(59250, 64000), "93%");
  assert.equal(percent(5, 1000), "0.5%");
  assert.equal(percent(null, 1000), "–");
  assert.equal(money("832.5", "NT$"), "NT$833");
  assert.equal(money("31.08", "NT$"), "NT$31.08");
});
