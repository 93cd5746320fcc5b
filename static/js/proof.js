// @ts-check
/** A run of verifications, followed: its lines, its results and the live map of its scratch pool. */
import { text } from "./lib/dom.js";
import { showLegend } from "./live/legend.js";
import { ClusterMap } from "./live/map.js";
import { LiveSocket } from "./live/socket.js";
import { makeStatus } from "./live/status.js";
import { Store } from "./live/store.js";
import { makeTooltip } from "./live/tooltip.js";

const EVERY_MS = 700;
const EMPTY = { frame: { partial: false }, nodes: [], gpu: {}, wl: {}, ut: {}, pr: {} };

export function start(root) {
  new Follower(root).follow();
}

class Follower {
  constructor(root) {
    this.root = root;
    this.last = Number(root.dataset.last);
    this.pool = root.dataset.pool;
    this.feed = root.querySelector("[data-feed]");
    this.store = new Store({ ...EMPTY });
    this.host = root.querySelector("[data-map]");
    this.map = new ClusterMap(this.host, this.store, { links: false });
    this.map.onHover = makeTooltip(document.querySelector("[data-tip]"), this.store, this.map.names);
    this.socket = new LiveSocket({ store: this.store, topics: ["map"], pool: this.pool, scratch: true, onChange: (changed) => this.#show(changed), onState: makeStatus() });
    document.querySelector("[data-live-state]")?.addEventListener("click", () => this.socket.togglePause());
    document.querySelector("[data-retry]")?.addEventListener("click", () => this.socket.retry());
    this.#showPool();
    this.#toEnd();
  }

  /** Ask for what is new until the run has ended, then show the page as it is kept. */
  async follow() {
    this.socket.start();
    for (;;) {
      await new Promise((done) => setTimeout(done, EVERY_MS));
      const state = await this.#ask();
      if (!state) continue;
      this.#take(state);
      if (!state.open) return location.reload();
    }
  }

  async #ask() {
    try {
      const answer = await fetch(`${this.root.dataset.lines}?after=${this.last}`, { headers: { accept: "application/json" } });
      if (answer.redirected) return location.reload();
      return answer.ok ? await answer.json() : null;
    } catch {
      // The socket says that the connection is lost; the next round asks again.
      return null;
    }
  }

  #take(state) {
    if (state.last) this.last = state.last;
    this.root.querySelector("[data-results]").innerHTML = state.results;
    for (const { result, html } of state.lines) {
      this.feed.querySelector(`[data-result="${result}"] ol`)?.insertAdjacentHTML("beforeend", html);
    }
    if (state.lines.length) this.#toEnd();
    if (state.pool === this.pool) return;
    this.pool = state.pool;
    this.socket.watch(this.pool);
    this.#showPool();
  }

  #toEnd() {
    if (!this.root.querySelector("[data-follow]").checked) return;
    const lists = [...this.feed.querySelectorAll("ol")].filter((list) => list.children.length);
    lists.at(-1)?.lastElementChild?.scrollIntoView({ block: "nearest" });
  }

  #showPool() {
    text(this.root.querySelector("[data-pool-name]"), this.pool);
    this.root.querySelector("[data-no-pool]").hidden = Boolean(this.pool);
    this.host.hidden = !this.pool;
    this.root.querySelector("[data-legend]").hidden = !this.pool;
  }

  #show(changed) {
    this.map.update(changed);
    if (changed.has("wl") || changed.has("pr") || changed.has("nodes")) showLegend(this.root.querySelector("[data-legend]"), [this.store], [this.map], "project");
  }
}
