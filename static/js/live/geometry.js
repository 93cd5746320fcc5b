// @ts-check
/** Where things are on the map: bars of equal size, one row a node, three densities. Pure. */

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

/** Sizes for so many nodes with at most so many GPUs each, in so much room. */
export function layout(nodeCount, columns, room = WIDTH) {
  const dense = nodeCount > 64;
  const compact = nodeCount > 16;
  const large = nodeCount <= 2 && columns <= 8;
  const narrow = columns <= 8 && room > 0 && room < NARROW;
  const all = narrow ? Math.max(280, room) : WIDTH;
  const left = narrow ? NARROW_LEFT : LEFT;
  const right = narrow ? NARROW_RIGHT : RIGHT;
  const gap = narrow && columns > 2 ? NARROW_GAP : GAP;
  const height = dense ? 8 : compact ? 14 : large ? 44 : 24;
  const pitch = dense ? 11 : compact ? 20 : large ? 62 : 35.2;
  const width = (all - left - right - gap * (columns - 1)) / columns;
  const top = 16;
  return {
    density: dense ? "dense" : compact ? "compact" : large ? "large" : "comfortable",
    narrow,
    nameLength: narrow ? 11 : 16,
    width: all,
    height: top + nodeCount * pitch - (pitch - height) + 8,
    left,
    top,
    pitch,
    gap,
    bar: { width, height },
    x: (column) => left + column * (width + gap),
    y: (row) => top + row * pitch,
  };
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
