// @ts-check
/** Where things are on the map: bars of equal size, one row a node, four densities, side by side where there is room. Pure. */

export const FLAG = { idle: 1, siblings: 2, departments: 4, leaving: 8, arriving: 16, nodata: 32 };

const WIDTH = 752;
const LEFT = 112;
const RIGHT = 58;
/** Below this width a node of at most eight GPUs is drawn as wide as there is room, so that nothing scrolls. */
const NARROW = 560;
const NARROW_LEFT = 84;
const NARROW_RIGHT = 42;
const GAP = 6;
/** Between many bars in little room. */
const NARROW_GAP = 3;
const SLICE_GAP = 1.2;
const LETTER = 5.75;
const TOP = 16;
/** Between two stacks of nodes that stand side by side. */
const STACK_GAP = 28;
/** Height of a bar, from one row to the next, and the least width of a bar where stacks stand side by side. */
const DENSITIES = {
  large: [44, 62, 60],
  comfortable: [24, 35.2, 56],
  compact: [14, 20, 36],
  dense: [8, 11, 24],
};

/** The density for so many nodes with at most so many GPUs each. */
export function densityFor(nodeCount, columns) {
  if (nodeCount > 64) return "dense";
  if (nodeCount > 16) return "compact";
  return nodeCount <= 2 && columns <= 8 ? "large" : "comfortable";
}

/**
 * Sizes for so many nodes with at most so many GPUs each, in so much room. `density` pins one; with `wide` the
 * map is drawn as wide as its room, and in stacks side by side where it would be taller than `tall`.
 */
export function layout(nodeCount, columns, room = WIDTH, { density = "auto", wide = false, tall = Infinity } = {}) {
  const named = density in DENSITIES ? density : densityFor(nodeCount, columns);
  const [height, pitch, leastBar] = DENSITIES[named];
  const narrow = columns <= 8 && room > 0 && room < NARROW;
  const all = wide || narrow ? Math.max(280, room) : WIDTH;
  const left = narrow ? NARROW_LEFT : LEFT;
  const right = narrow ? NARROW_RIGHT : RIGHT;
  const gap = (narrow || named === "dense") && columns > 2 ? NARROW_GAP : GAP;
  const stacks = wide ? stacksFor(nodeCount, all, left + right + columns * (leastBar + gap), pitch, tall) : 1;
  const rows = Math.ceil(nodeCount / stacks) || 1;
  const stack = (all - STACK_GAP * (stacks - 1)) / stacks;
  const width = (stack - left - right - gap * (columns - 1)) / columns;
  const begin = (row) => Math.floor(row / rows) * (stack + STACK_GAP);
  return {
    density: named,
    narrow,
    wide,
    stacks,
    rows,
    nameLength: narrow ? 11 : 16,
    width: all,
    height: TOP + rows * pitch - (pitch - height) + 8,
    left,
    gap,
    bar: { width, height },
    begin,
    end: (row) => begin(row) + stack,
    x: (column, row = 0) => begin(row) + left + column * (width + gap),
    y: (row) => TOP + (row % rows) * pitch,
  };
}

function stacksFor(nodeCount, all, leastWidth, pitch, tall) {
  const wanted = Math.ceil((nodeCount * pitch) / Math.max(pitch, tall - TOP));
  const fitting = Math.floor((all + STACK_GAP) / (leastWidth + STACK_GAP));
  return Math.max(1, Math.min(wanted, fitting));
}

/** The slices of one GPU with their places: `[wid, milli, flags]` to `{wid, milli, flags, x, width}`. */
export function place(slices, bar) {
  const total = slices.reduce((sum, [, milli]) => sum + milli, 0);
  let x = 0;
  return slices.map(([wid, milli, flags], index) => {
    const whole = (milli / 1000) * bar.width;
    const closes = index === slices.length - 1 && total >= 999;
    const placed = { wid, milli, flags, x, width: Math.max(0.8, whole - (closes ? 0 : SLICE_GAP)) };
    x += whole;
    return placed;
  });
}

/** As much of a name as fits, or nothing where a stump would say nothing. */
export function label(name, width) {
  const most = Math.floor((width - 8) / LETTER);
  if (most < 4) return "";
  if (name.length <= most) return name;
  return most < 6 ? "" : `${name.slice(0, most - 1)}…`;
}

/** How wide a label is. */
export function labelWidth(text) {
  return text.length * LETTER + 6;
}

/** The fill for a utilization: a ramp of four stops, mixed by the browser so that themes work. */
export function heat(permille) {
  if (permille === null || permille === undefined) return "";
  const at = (Math.min(1000, permille) / 1000) * 3;
  const stop = Math.min(2, Math.floor(at));
  return `color-mix(in srgb, var(--u${stop + 1}) ${Math.round((at - stop) * 100)}%, var(--u${stop}))`;
}
