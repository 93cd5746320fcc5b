/** The map alone: stacks side by side, pinned densities, and what colors and chips go by. */
import assert from "node:assert/strict";
import test from "node:test";
import { densityFor, layout } from "../../static/js/live/geometry.js";
import { groupsOf } from "../../static/js/live/legend.js";
import { makeDepartments, makeNames } from "../../static/js/live/names.js";
import { SidePanel } from "../../static/js/live/side.js";

test("a tall map stands in stacks where there is room, and every node has its place", () => {
  const sizes = layout(125, 8, 1400, { wide: true, tall: 500 });
  assert.ok(sizes.stacks > 1);
  const places = new Set(Array.from({ length: 125 }, (_, row) => `${sizes.begin(row)} ${sizes.y(row)}`));
  assert.equal(places.size, 125);
  for (let row = 0; row < 125; row += 1) assert.ok(sizes.end(row) <= 1400.01 && sizes.y(row) < sizes.height);
});

test("without room for two there is one stack", () => {
  assert.equal(layout(125, 8, 420, { wide: true, tall: 500 }).stacks, 1);
  assert.equal(layout(125, 8, 1400).stacks, 1);
});

test("a density can be pinned, and is by the number of nodes otherwise", () => {
  assert.deepEqual([8, 17, 65].map((nodes) => densityFor(nodes, 8)), ["comfortable", "compact", "dense"]);
  assert.equal(layout(8, 8, 1400, { density: "dense" }).density, "dense");
  assert.equal(layout(8, 8, 1400, { density: "no such" }).density, "comfortable");
});

const store = () => ({
  parts: {
    wl: { 7: ["probe", 3, "training", 0, 1, null], 8: ["guard", 4, "inference", 0, 0, null] },
    pr: { 3: ["nlp-lab", 6], 4: ["prod", 1] },
    quota: { rows: [{ id: 1, name: "Research", dept: 1 }, { id: 3, name: "nlp-lab", dept: 0 }, { id: 3, name: "Production", dept: 1 }, { id: 4, name: "prod", dept: 0 }] },
  },
});

test("colors and chips go by project, type or department", () => {
  const shown = (mode) => [7, 8].map((wid) => makeNames(store(), () => mode)(wid)).map(({ paint, group }) => [paint, group]);
  assert.deepEqual(shown("project"), [["pc6", 3], ["pc1", 4]]);
  assert.deepEqual(shown("type"), [["pc3", "training"], ["pc1", "inference"]]);
  assert.deepEqual(shown("dept"), [["pc1", 1], ["pc3", 3]]);
});

test("a department and a project of one number are told apart", () => {
  const found = makeDepartments(store())();
  assert.equal(found.get(3).name, "Research");
  assert.equal(found.get(4).name, "Production");
});

test("the legend of several maps names what any of them holds, each once", () => {
  const other = store();
  other.parts.wl = { 9: ["scan", 5, "workspace", 0, 1, null], 10: ["probe-2", 3, "training", 0, 1, null] };
  other.parts.pr = { 3: ["nlp-lab", 6], 5: ["bio-fold", 7] };
  const names = (color) => groupsOf([store(), other], color).map(([, name]) => name);
  assert.deepEqual(names("project"), ["nlp-lab", "prod", "bio-fold"]);
  assert.equal(groupsOf([store(), other], "type").length, 3);
});

test("a panel whose map was laid anew hears no more keys", () => {
  const keys = new EventTarget();
  globalThis.addEventListener = keys.addEventListener.bind(keys);
  const closed = [];
  const laid = new AbortController();
  const panels = ["old", "new"].map((name) => new SidePanel({ hidden: false }, store(), () => ({}), () => closed.push(name), name === "old" ? { signal: laid.signal } : {}));
  for (const panel of panels) panel.at = {};
  laid.abort();
  keys.dispatchEvent(Object.assign(new Event("keydown"), { key: "Escape" }));
  assert.deepEqual(closed, ["new"]);
});
