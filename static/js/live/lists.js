// @ts-check
/** What waits and what was decided, keyed by id so that lines stay where the reader looks. */
import { el, sentence, text } from "../lib/dom.js";
import { asked, clock, duration } from "../lib/format.js";
import { colorClass } from "./names.js";

const DECISIONS_SHOWN = 6;

/** Show the waiting list. */
export function showWaiting(root, rows, kpi) {
  keyed(root.querySelector("[data-waiting]"), rows, waitingLine, fillWaiting);
  root.querySelector("[data-waiting-empty]").hidden = rows.length > 0;
  text(root.querySelector('[data-bind="waiting-all"]'), String(kpi.waiting));
}

/** Show the newest decisions. */
export function showDecisions(root, rows) {
  keyed(root.querySelector("[data-decisions]"), rows.slice(0, DECISIONS_SHOWN), decisionLine, fillDecision);
  root.querySelector("[data-decisions-empty]").hidden = rows.length > 0;
}

function keyed(list, rows, make, fill) {
  const kept = new Map([...list.children].filter((line) => line.dataset.id).map((line) => [line.dataset.id, line]));
  const lines = rows.map((row) => {
    const line = kept.get(String(row.id)) ?? make(row);
    const said = JSON.stringify(row);
    if (line.dataset.said !== said) {
      line.dataset.said = said;
      fill(line, row);
    }
    return line;
  });
  const same = lines.length === list.children.length && lines.every((line, at) => list.children[at] === line);
  if (!same) list.replaceChildren(...lines);
}

function waitingLine(row) {
  return el("li", { "data-id": row.id }, el("i", { class: "dot" }), el("a", { class: "nm" }), el("span", { class: "ak" }), el("span", { class: "wy" }));
}

function fillWaiting(line, row) {
  const [, name, asks, why] = line.children;
  line.className = colorClass(row.color);
  name.href = `/workloads/${row.id}`;
  name.replaceChildren(el("span", {}, `${row.project} /`), ` ${row.name}`);
  const age = el("span", { "data-since": row.since }, duration((Date.now() - row.since) / 1000));
  asks.replaceChildren(`${asked(row.asks, row.mib)} · `, age);
  const when = el("em");
  sentence(why, row.why);
  sentence(when, row.when);
  why.append(" ", when);
}

function decisionLine(row) {
  const time = el("time", { "data-ms": row.at, title: new Date(row.at).toISOString() }, clock(row.at));
  return el("li", { "data-id": row.id }, el("a", { class: "tm", href: `/decisions/${row.id}` }, time), el("span", { class: "tx" }));
}

function fillDecision(line, row) {
  const words = el("span");
  sentence(words, row.text);
  line.children[1].replaceChildren(el("span", { class: `tag ${row.tone}` }, row.name), " ", ...words.childNodes);
}
