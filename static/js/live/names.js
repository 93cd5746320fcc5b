// @ts-check
/** What slices are called: workload, project, color; and the text name of a GPU. Pure over the store. */
import { gpu as asGpu } from "../lib/format.js";
import { format, gettext } from "../lib/i18n.js";
import { FLAG } from "./geometry.js";

/** Palette of eight; more projects than that share one neutral. */
const HUES = 8;

/** Return a function from workload id to `{name, project, projectName, color, kind, since}`. */
export function makeNames(store) {
  return (wid) => {
    const workload = store.parts.wl?.[wid];
    if (!workload) return { name: "", project: null, projectName: gettext("in use by others"), color: "pc0", kind: "", gang: false, since: null };
    const [name, project, kind, gang, preemptible, since] = workload;
    const [projectName, color] = store.parts.pr?.[project] ?? ["", 0];
    return { name, project, projectName, color: colorClass(color), kind, gang: Boolean(gang), preemptible: Boolean(preemptible), since };
  };
}

/** The class that carries a project's hue. */
export function colorClass(color) {
  return color >= 1 && color <= HUES ? `pc${color}` : "pc0";
}

/** Whether a slice is within its project's guarantee, in words. */
export function standing(flags) {
  if (flags & FLAG.leaving) return gettext("leaving, saving its work");
  if (flags & FLAG.departments) return gettext("Borrowed. Other departments can take it back");
  if (flags & FLAG.siblings) return gettext("Borrowed. Projects of its department can take it back");
  return gettext("Within its guarantee");
}

/** The same in a word or two. */
export function standingShort(flags) {
  if (flags & FLAG.leaving) return gettext("Leaving");
  return flags & (FLAG.departments | FLAG.siblings) ? gettext("Borrowed") : gettext("Within its guarantee");
}

/** How busy a slice is, in words. */
export function business(flags, permille) {
  if (flags & FLAG.arriving) return gettext("starting");
  if (flags & FLAG.idle) return gettext("idle");
  if (flags & FLAG.nodata || permille === null || permille === undefined) return gettext("no metrics");
  return format(gettext("%(n)s%% busy").replace("%%", "%"), { n: Math.round(permille / 10) });
}

/** The text name of a GPU and all that is on it. */
export function gpuName(node, view, names) {
  const parts = view.slices.map((slice) => {
    const about = names(slice.wid);
    const marks = [slice.flags & FLAG.idle ? gettext("idle") : "", slice.flags & (FLAG.siblings | FLAG.departments) ? gettext("borrowed") : "", slice.flags & FLAG.leaving ? gettext("leaving") : ""];
    return [about.projectName, about.name, asGpu(slice.milli), ...marks].filter(Boolean).join(" ");
  });
  return `${node.name} GPU ${view.gpu.index}: ${parts.join(", ") || gettext("free")}`;
}
