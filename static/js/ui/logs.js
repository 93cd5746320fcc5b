// @ts-check
/** A workload's output: followed by offset, with the reader's own settings, searched and filtered here. */
import { el, text } from "../lib/dom.js";
import { format, gettext, ngettext } from "../lib/i18n.js";
import { LogLines, marker, PIECE } from "./log_lines.js";

const EVERY_MS = 1500;
const STORED = "tidegate.logs";
/** Lines in one block of the page; what is not seen is not laid out. */
const BLOCK = 200;

export function start(panel) {
  const pick = panel.querySelector("[data-log-of]");
  if (pick) new Viewer(panel, pick).start();
}

class Viewer {
  constructor(panel, pick) {
    this.panel = panel;
    this.pick = pick;
    this.box = panel.querySelector("[data-log]");
    this.level = panel.querySelector("[data-log-level]");
    this.find = panel.querySelector("[data-log-find]");
    this.earlier = panel.querySelector("[data-log-earlier]");
    this.settings = { follow: true, wrap: true, times: false, ...JSON.parse(localStorage.getItem(STORED) ?? "{}") };
    this.reset();
  }

  start() {
    for (const box of this.panel.querySelectorAll("[data-log-set]")) {
      box.checked = this.settings[box.dataset.logSet];
      box.addEventListener("change", () => this.set(box.dataset.logSet, box.checked));
    }
    this.pick.addEventListener("change", () => this.choose());
    this.level.addEventListener("change", () => this.draw());
    this.find.addEventListener("input", () => this.draw());
    this.earlier.addEventListener("click", () => this.more());
    this.box.addEventListener("scroll", () => this.onScroll());
    this.look();
    this.choose();
    setInterval(() => {
      if (this.settings.follow && !document.hidden) this.read();
    }, EVERY_MS);
  }

  set(name, value) {
    this.settings[name] = value;
    localStorage.setItem(STORED, JSON.stringify(this.settings));
    this.look();
    if (name === "follow" && value) this.read().then(() => this.toEnd());
  }

  look() {
    this.box.classList.toggle("unwrapped", !this.settings.wrap);
    this.box.classList.toggle("timed", this.settings.times);
  }

  reset() {
    this.sources = [];
    this.busy = false;
    this.asked = Symbol("asked");
  }

  /** Begin anew with one replica, or with all of the newest run. */
  choose() {
    this.reset();
    const values = this.pick.value === "all" ? this.ofNewestRun() : [this.pick.value];
    this.sources = values.map((value) => {
      const [attempt, replica] = value.split("-");
      return { attempt, replica, lines: new LogLines(values.length > 1 ? `${replica} | ` : ""), ended: false };
    });
    const [first] = this.sources;
    this.panel.querySelector("[data-log-file]").href = `${this.panel.dataset.file}?attempt=${first.attempt}&replica=${first.replica}`;
    this.read().then(() => this.toEnd());
  }

  ofNewestRun() {
    const values = [...this.pick.options].map((option) => option.value).filter((value) => value !== "all");
    const newest = values[0].split("-")[0];
    return values.filter((value) => value.split("-")[0] === newest);
  }

  async read() {
    if (this.busy) return;
    this.busy = true;
    const asked = this.asked;
    let added = false;
    for (const source of this.sources) {
      const piece = source.ended ? null : await this.fetch(source, source.lines.next);
      if (asked !== this.asked) return;
      if (!piece) continue;
      added = source.lines.after(piece) || added;
      source.ended = piece.ended && piece.next_offset >= piece.size_bytes;
    }
    this.busy = false;
    if (added || !this.drawn) this.draw();
  }

  async more() {
    const [source] = this.sources;
    const from = Math.max(0, source.lines.first - PIECE);
    const piece = await this.fetch(source, from);
    if (!piece) return;
    const height = this.box.scrollHeight;
    source.lines.before(piece);
    this.draw();
    this.box.scrollTop += this.box.scrollHeight - height;
  }

  async fetch(source, offset) {
    const query = new URLSearchParams({ replica: source.replica, attempt: source.attempt });
    if (offset !== null) query.set("offset", String(offset));
    try {
      const answer = await fetch(`${this.panel.dataset.address}?${query}`);
      text(this.panel.querySelector("[data-log-state]"), answer.ok ? "" : gettext("The output can't be read now."));
      return answer.ok ? await answer.json() : null;
    } catch {
      text(this.panel.querySelector("[data-log-state]"), gettext("No answer. Trying again."));
      return null;
    }
  }

  draw() {
    const atEnd = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 24;
    const wanted = this.find.value.toLowerCase();
    const level = this.level.value;
    const all = this.sources.flatMap((source) => source.lines.shown());
    if (this.sources.length > 1) all.sort((a, b) => a.at - b.at);
    const lines = all.filter((line) => line.marker || ((!level || line.level === "error" || line.level === level) && (!wanted || line.text.toLowerCase().includes(wanted))));
    this.box.replaceChildren(...blocks(lines));
    this.drawn = true;
    this.panel.querySelector("[data-log-empty]").hidden = all.length > 0;
    this.earlier.hidden = this.sources.length !== 1 || this.sources[0].lines.first === 0;
    if (wanted || level) {
      const n = lines.filter((line) => !line.marker).length;
      text(this.panel.querySelector("[data-log-state]"), format(ngettext("%(n)s line", "%(n)s lines", n), { n }));
    }
    if (this.settings.follow && atEnd) this.toEnd();
  }

  toEnd() {
    if (this.settings.follow) this.box.scrollTop = this.box.scrollHeight;
  }

  /** Whoever scrolls up reads: following goes on when the end is seen again. */
  onScroll() {
    this.box.classList.toggle("away", this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight >= 24);
  }
}

function blocks(lines) {
  const found = [];
  for (let at = 0; at < lines.length; at += BLOCK) {
    found.push(el("div", { class: "block" }, ...lines.slice(at, at + BLOCK).map(row)));
  }
  return found;
}

function row(line) {
  if (line.marker) return el("div", { class: "marker" }, marker(line));
  const when = line.at ? new Date(line.at) : null;
  return el("div", { class: line.level ? `line ${line.level}` : "line" }, el("time", { datetime: when?.toISOString() ?? null }, when ? when.toLocaleTimeString(document.documentElement.lang, { hour12: false }) : "–"), `${line.prefix}${line.text}` || " ");
}
