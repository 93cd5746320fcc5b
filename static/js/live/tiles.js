// @ts-check
/** The seven figures. The server sums; here they are only written. */
import { text } from "../lib/dom.js";
import { duration, gpu, money, percent } from "../lib/format.js";
import { format, gettext, ngettext } from "../lib/i18n.js";

const AMBER_MS = 30 * 60 * 1000;

/** Write the figures of `kpi` into the tiles under `root`. */
export function showTiles(root, kpi) {
  const at = (name) => root.querySelector(`[data-bind="${name}"]`);
  text(at("gpus"), String(kpi.gpus));
  text(at("held"), gpu(kpi.held));
  text(at("computing"), gpu(kpi.computing));
  text(at("idle"), gpu(kpi.idle));
  text(at("borrowed"), gpu(kpi.borrowed));
  text(at("free"), gpu(kpi.free));
  text(at("waiting"), String(kpi.waiting));
  at("gpus-about")?.classList.toggle("red", kpi.unhealthy > 0);
  about(at("gpus-about"), gpusAbout(kpi));
  about(at("held-about"), format(gettext("%(share)s of capacity"), { share: percent(kpi.held, kpi.capacity) }));
  about(at("computing-about"), format(gettext("at %(share)s utilization"), { share: percent(kpi.util, 1000) }));
  about(at("idle-about"), idleAbout(kpi));
  about(at("borrowed-about"), format(ngettext("%(n)s project, reclaimable", "%(n)s projects, reclaimable", kpi.borrowers), { n: kpi.borrowers }));
  about(at("free-about"), format(gettext("largest single slot %(n)s"), { n: `*${gpu(kpi.largest)}*` }));
  showOldest(root, kpi);
}

/** The age of what waits longest; it grows without news from the server. */
export function showOldest(root, kpi) {
  const node = root.querySelector('[data-bind="waiting-about"]');
  const ms = kpi.oldest === null ? 0 : Date.now() - kpi.oldest;
  node?.classList.toggle("amber", ms >= AMBER_MS);
  about(node, kpi.waiting ? format(gettext("oldest %(age)s"), { age: `*${duration(ms / 1000)}*` }) : gettext("nothing waits"));
}

function gpusAbout(kpi) {
  if (kpi.unhealthy) return format(ngettext("%(n)s unhealthy", "%(n)s unhealthy", kpi.unhealthy), { n: `*${kpi.unhealthy}*` });
  return format(gettext("%(n)s schedulable"), { n: kpi.schedulable });
}

function idleAbout(kpi) {
  if (kpi.cost !== null) return format(gettext("%(cost)s an hour"), { cost: `*${money(kpi.cost, kpi.currency)}*` });
  return format(gettext("%(share)s of allocated"), { share: percent(kpi.idle, kpi.held) });
}

/** Write words of which one part, between stars, stands out. */
function about(node, words) {
  if (!node || node.dataset.said === words) return;
  node.dataset.said = words;
  const [before, strong, after] = words.split("*");
  node.replaceChildren(before ?? "");
  if (strong === undefined) return;
  const part = document.createElement("b");
  part.textContent = strong;
  node.append(part, after ?? "");
}
