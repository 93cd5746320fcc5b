// @ts-check
/** What slices are called: workload, project, color; and the text name of a GPU. Pure over the store. */
import { gpu as asGpu } from "../lib/format.js";
import { format, gettext } from "../lib/i18n.js";
import { FLAG } from "./geometry.js";

/** Palette of eight; more projects than that share one neutral. */
const HUES = 8;

/** Hues of departments, in the order of the tree: neighbors differ most. */
const DEPARTMENT_HUES = [1, 3, 5, 4, 6, 7, 8, 2];
/** The hue of each type of work. */
export const KIND_HUES = { inference: 1, training: 3, distributed: 4, workspace: 5 };

/**
 * Return a function from workload id to what is said and shown of it. `color` is its project's hue, `paint` what the
 * map is filled with and `group` what a chip of the legend isolates, both by `mode()`: project, type or dept.
 */
export function makeNames(store, mode = () => "project") {
  const departments = makeDepartments(store);
  return (wid) => {
    const workload = store.parts.wl?.[wid];
    if (!workload) return { name: "", project: null, projectName: gettext("in use by others"), color: "pc0", paint: "pc0", group: null, kind: "", gang: false, since: null };
    const [name, project, kind, gang, preemptible, since] = workload;
    const [projectName, hue] = store.parts.pr?.[project] ?? ["", 0];
    const color = colorClass(hue);
    const about = { name, project, projectName, color, paint: color, group: project, kind, gang: Boolean(gang), preemptible: Boolean(preemptible), since };
    if (mode() === "type") return { ...about, paint: colorClass(KIND_HUES[kind] ?? 0), group: kind };
    if (mode() !== "dept") return about;
    const department = departments().get(project);
    return { ...about, paint: colorClass(department?.hue ?? 0), group: department?.id ?? null };
  };
}

/** Return a function that gives the department of each project: the tree's rows stand under theirs. */
export function makeDepartments(store) {
  let rows = null;
  let found = new Map();
  return () => {
    if (rows === store.parts.quota?.rows) return found;
    rows = store.parts.quota?.rows ?? [];
    found = new Map();
    let department = null;
    let at = 0;
    for (const row of rows) {
      if (row.dept) department = { id: row.id, name: row.name, hue: DEPARTMENT_HUES[at++] ?? 0 };
      else if (department) found.set(row.id, department);
    }
    return found;
  };
}

/** What a type of work is called. */
export function kindName(kind) {
  return { training: gettext("Training"), distributed: gettext("Distributed training"), workspace: gettext("Workspace"), inference: gettext("Inference") }[kind] ?? kind;
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
