// @ts-check
/**
 * The page's one connection: a WebSocket, or polling where none can be opened. It asks for missed
 * deltas, tells how fresh the data is, and comes back by itself.
 *
 * States: connecting, live, polling, quiet (7 s without a word), lost, silent (the scheduler has run
 * no cycle for 30 s), paused.
 */

const QUIET_MS = 7000;
const DEAD_MS = 15000;
const SILENT_MS = 30000;
const POLL_MS = 5000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30000;
const UPGRADES_BEFORE_POLLING = 3;

export class LiveSocket {
  /** @param {{store: any, topics: string[], pool: string, onChange: Function, onState: Function, scratch?: boolean}} options */
  constructor({ store, topics, pool, onChange, onState, scratch = false }) {
    this.store = store;
    this.topics = topics;
    this.pool = pool;
    /** Whether the pool is that of a verification, which only system admins are shown. */
    this.scratch = scratch;
    this.onChange = onChange;
    this.onState = onState;
    this.paused = false;
    this.heardAt = 0;
    /** When the present attempt began or the present socket opened: it has its time to speak. */
    this.triedAt = 0;
    this.dataAt = Date.now();
    this.lastCycle = null;
    this.lag = 0;
    this.failures = 0;
    this.everOpen = false;
    this.retryAt = 0;
    this.lostAt = 0;
    this.ws = null;
    this.polling = false;
  }

  start() {
    this.#open();
    setInterval(() => this.#watch(), 500);
    addEventListener("online", () => this.retry());
    addEventListener("focus", () => this.#open());
    document.addEventListener("visibilitychange", () => this.#visibility());
  }

  /** Try now. */
  retry() {
    this.failures = 0;
    this.retryAt = 0;
    this.#open();
  }

  /** Show another pool from now on. */
  watch(pool) {
    this.pool = pool;
    this.store.seq = 0;
    this.#subscribe();
  }

  /** Stop or go on showing changes. */
  togglePause() {
    this.paused = !this.paused;
    this.#send({ op: this.paused ? "pause" : "resync" });
    this.#tell();
  }

  #open() {
    if (this.ws || this.polling) return;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const ws = new WebSocket(`${scheme}://${location.host}/ws/live/?language=${document.documentElement.lang}`);
    this.ws = ws;
    this.triedAt = Date.now();
    let opened = false;
    ws.addEventListener("open", () => {
      opened = true;
      this.triedAt = Date.now();
      this.everOpen = true;
      this.#subscribe();
    });
    ws.addEventListener("message", (event) => this.#hear(JSON.parse(event.data)));
    ws.addEventListener("close", (event) => this.#closed(ws, event.code, opened));
    this.#tell();
  }

  #subscribe() {
    this.#send({ op: "sub", topics: this.topics, pool: this.pool, scratch: this.scratch, since: this.store.seq, stream: this.store.stream });
  }

  #hear(message) {
    this.failures = 0;
    this.lostAt = 0;
    this.heardAt = Date.now();
    this.dataAt = this.heardAt;
    if (message.last) this.lastCycle = message.last;
    if (message.now) this.lag = Math.max(0, this.heardAt - message.now);
    if (message.t === "d") this.lag = Math.max(0, this.heardAt - message.ts);
    if (message.t === "h") {
      if (message.seq > this.store.seq && this.store.seq && !this.paused) this.#send({ op: "resync" });
    } else if (!this.paused || message.t === "snap") this.#take(message);
    this.#tell();
  }

  #take(message) {
    const changed = this.store.take(message);
    if (changed === null) this.#send({ op: "resync" });
    else if (changed.size) this.onChange(changed, message);
  }

  #closed(ws, code, opened) {
    if (this.ws !== ws) return;
    this.ws = null;
    if (code === 4401) return location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
    if (code === 4403) return location.reload();
    if (!this.lostAt) this.lostAt = Date.now();
    this.failures += 1;
    // A handshake that is refused looks like a server that is away: only asking tells them apart.
    if (!opened) this.#leaveIfSignedOut();
    if (!opened && !this.everOpen && this.failures >= UPGRADES_BEFORE_POLLING) return this.#poll();
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(10, this.failures - 1));
    this.retryAt = Date.now() + wait * (0.85 + 0.3 * Math.random());
    this.#tell();
  }

  async #leaveIfSignedOut() {
    try {
      const answer = await fetch("/api/v1/live?topics=&since=0", { headers: { accept: "application/json" } });
      if (answer.status === 401) location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
    } catch {
      // The server is away: the socket is tried again anyway.
    }
  }

  async #poll() {
    this.polling = true;
    while (this.polling) {
      if (!document.hidden && !this.paused) await this.#pollOnce();
      await new Promise((done) => setTimeout(done, POLL_MS));
    }
  }

  async #pollOnce() {
    const query = new URLSearchParams({ topics: this.topics.join(","), pool: this.pool, since: String(this.store.seq), stream: this.store.stream });
    if (this.scratch) query.set("scratch", "1");
    try {
      const answer = await fetch(`/api/v1/live?${query}`, { headers: { accept: "application/json" } });
      if (answer.status === 401) return location.assign("/login");
      if (!answer.ok) throw new Error(String(answer.status));
      const body = await answer.json();
      for (const message of body.messages) this.#hear(message);
      this.#hear({ t: "h", now: body.now, last: body.last, seq: 0 });
    } catch {
      if (!this.lostAt) this.lostAt = Date.now();
      this.#tell();
    }
  }

  #visibility() {
    if (this.paused) return;
    if (document.hidden) this.#send({ op: "pause" });
    else if (this.ws?.readyState === WebSocket.OPEN) this.#subscribe();
    else this.#open();
  }

  #watch() {
    const now = Date.now();
    const spokeAt = Math.max(this.triedAt, this.heardAt);
    if (this.ws && !document.hidden && now - spokeAt > DEAD_MS) this.#giveUp();
    if (!this.ws && !this.polling && now >= this.retryAt) this.#open();
    this.#tell();
  }

  /** A socket that says nothing is as good as none, whether it is open or still opening. */
  #giveUp() {
    const { ws } = this;
    const opened = ws.readyState === WebSocket.OPEN;
    ws.close();
    this.#closed(ws, 1006, opened);
  }

  #send(order) {
    if (this.ws?.readyState === WebSocket.OPEN) this.ws.send(JSON.stringify(order));
  }

  /** The state in a word, for the page. */
  state(now = Date.now()) {
    if (this.lostAt) return "lost";
    if (this.paused) return "paused";
    if (!this.heardAt) return "connecting";
    if (this.lastCycle && now - this.lastCycle > SILENT_MS) return "silent";
    if (this.polling) return "polling";
    return now - this.heardAt > QUIET_MS ? "quiet" : "live";
  }

  #tell() {
    this.onState(this.state(), this);
  }
}
