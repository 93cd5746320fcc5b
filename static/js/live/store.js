// @ts-check
/** The page's copy of the state: parts by name, changed by snapshots and numbered deltas. Pure. */

/** Parts whose entries come one by one; a null takes an entry away. */
const KEYED = new Set(["gpu", "wl", "ut", "pr"]);
const HEAD = new Set(["t", "stream", "seq", "ts", "cycle", "last"]);

export class Store {
  constructor(parts = {}) {
    this.parts = parts;
    this.seq = 0;
    this.stream = "";
  }

  /**
   * Take a message. Returns the changed part names, for a keyed part with the changed keys
   * (null: all of them); or null where a delta is missing and the page must ask again.
   */
  take(message) {
    if (message.t === "snap") return this.#replace(message);
    if (message.stream !== this.stream || message.seq > this.seq + 1) return null;
    if (message.seq <= this.seq) return new Map();
    this.seq = message.seq;
    const changed = new Map();
    for (const [name, value] of entries(message)) {
      if (KEYED.has(name)) {
        const kept = { ...this.parts[name], ...value };
        for (const [key, entry] of Object.entries(value)) if (entry === null && name !== "ut") delete kept[key];
        this.parts[name] = kept;
        changed.set(name, Object.keys(value));
      } else {
        this.parts[name] = value;
        changed.set(name, null);
      }
    }
    return changed;
  }

  #replace(message) {
    this.seq = message.seq;
    this.stream = message.stream;
    const changed = new Map();
    for (const [name, value] of entries(message)) {
      this.parts[name] = value;
      changed.set(name, null);
    }
    return changed;
  }
}

function entries(message) {
  return Object.entries(message).filter(([name]) => !HEAD.has(name));
}
