// @ts-check
/** The ribbon over the map: what is being taken back right now, else what was decided last. */
import { sentence, text } from "../lib/dom.js";
import { format, gettext } from "../lib/i18n.js";

const GREEN_MS = 6000;

export class Ribbon {
  constructor(node, store) {
    this.node = node;
    this.store = store;
    this.tag = node.querySelector("[data-ribbon-tag]");
    this.words = node.querySelector("[data-ribbon-text]");
    this.link = node.querySelector("[data-ribbon-link]");
    this.bar = node.querySelector("[data-ribbon-bar]");
    this.timer = 0;
    this.show();
  }

  /** Show the state's newest eviction, or the newest decision. */
  show() {
    clearTimeout(this.timer);
    const [first, ...others] = this.store.parts.act ?? [];
    if (first) this.#eviction(first, others.length);
    else this.#last();
  }

  #eviction(act, more) {
    const names = { reclaim: gettext("Reclaim"), preempt: gettext("Preempt"), consolidate: gettext("Move") };
    this.#paint("evict", names[act.rule] ?? gettext("Leaving"), act.text);
    if (more) this.words.append(` ${format(gettext("+%(n)s more"), { n: more })}`);
    this.#explain((event) => event.verb === act.rule);
    const key = `${act.served}:${act.from}`;
    if (this.running === key) return;
    this.running = key;
    const total = Math.max(1, act.until - act.from);
    const done = Math.min(1, Math.max(0, (Date.now() - act.from) / total));
    this.bar.getAnimations().forEach((animation) => animation.cancel());
    this.bar.animate([{ transform: `scaleX(${done})` }, { transform: "scaleX(1)" }], { duration: total * (1 - done), fill: "forwards" });
  }

  #last() {
    const events = this.store.parts.ev ?? [];
    // What moved says more than what still waits.
    const event = events.find(({ verb }) => verb !== "deny") ?? events[0];
    const wasRunning = this.running;
    this.running = "";
    this.bar.getAnimations().forEach((animation) => animation.cancel());
    this.node.hidden = !event;
    if (!event) return;
    const fresh = wasRunning || Date.now() - event.at < GREEN_MS;
    this.#paint(fresh && event.tone === "ok" ? "ok" : "", event.name, event.text, event.tone);
    this.#explain((other) => other.id === event.id);
    if (fresh) this.timer = setTimeout(() => this.show(), GREEN_MS);
  }

  #paint(tone, name, spans, tagTone = tone) {
    this.node.hidden = false;
    this.node.className = `ribbon ${tone}`.trim();
    this.tag.hidden = false;
    this.tag.className = `tag ${tagTone}`.trim();
    text(this.tag, name);
    const key = JSON.stringify(spans);
    if (this.said === key) return;
    this.said = key;
    sentence(this.words, spans);
  }

  #explain(wanted) {
    const event = (this.store.parts.ev ?? []).find(wanted);
    this.link.href = event ? `/decisions/${event.id}` : "/decisions";
  }
}
