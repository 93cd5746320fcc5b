// @ts-check
/** The lines of one output, from pieces with byte offsets; at most so many are held. */
import { format, gettext } from "../lib/i18n.js";

/** Bytes of one piece, as the server gives them. */
export const PIECE = 64 * 1024;
const MOST = 20_000;
const ERROR = /\b(error|fatal|critical|traceback|exception|failed)\b|!!!/i;
const WARNING = /\bwarn(ing)?\b/i;
const MARKER = /^--- SIGTERM, ([a-z_ ]+) ---$/;
const CUT = /^--- (\d+) bytes were cut here ---$/;

export class LogLines {
  constructor(prefix) {
    this.prefix = prefix;
    this.lines = [];
    /** Where reading goes on; null: at the end of the output. */
    this.next = null;
    this.first = 0;
    this.rest = "";
    this.restAt = 0;
  }

  /** Take the piece that follows; true where there is something new. */
  after(piece) {
    const isFirst = this.next === null;
    const skipped = !isFirst && piece.offset > this.next ? piece.offset - this.next : 0;
    this.next = piece.next_offset;
    if (isFirst) this.first = piece.offset;
    if (!piece.text) return isFirst;
    const [begun, ...others] = piece.text.split("\n");
    const cutBegin = isFirst && piece.offset > 0;
    const times = timesOf(piece);
    let offset = piece.offset;
    if (skipped) this.lines.push(line(`--- ${skipped} bytes were cut here ---`, times(offset), this.prefix));
    const whole = cutBegin ? others : [this.rest + begun, ...others];
    if (cutBegin) this.first = offset += bytes(begun) + 1;
    this.rest = whole.pop() ?? "";
    for (const each of whole) {
      this.lines.push(line(each, times(offset), this.prefix));
      offset += bytes(each) + 1;
    }
    this.restAt = times(offset);
    if (this.lines.length > MOST) this.lines.splice(0, this.lines.length - MOST);
    return true;
  }

  /** Take the piece before the first line that is held; of one that reaches further, only what is not held. */
  before(piece) {
    const until = this.first;
    const times = timesOf(piece);
    const found = piece.text.split("\n");
    let offset = piece.offset;
    if (piece.offset > 0) offset += bytes(found.shift()) + 1;
    this.first = offset;
    const lines = [];
    for (const each of found) {
      if (offset >= until) break;
      lines.push(line(each, times(offset), this.prefix));
      offset += bytes(each) + 1;
    }
    this.lines.unshift(...lines);
  }

  /** All lines, with the one that is not ended yet. */
  shown() {
    return this.rest ? [...this.lines, line(this.rest, this.restAt, this.prefix)] : this.lines;
  }
}

/** The words of a line that the supervisor wrote. */
export function marker(made) {
  const cut = CUT.exec(made.text);
  if (cut) return format(gettext("%(n)s bytes were cut here"), { n: Number(cut[1]).toLocaleString() });
  const why = {
    reclaim: gettext("SIGTERM: reclaimed"),
    preempt: gettext("SIGTERM: preempted"),
    consolidate: gettext("SIGTERM: moved"),
    drain: gettext("SIGTERM: its node is drained"),
    idle: gettext("SIGTERM: stopped by the idle rule"),
    runtime: gettext("SIGTERM: its time limit"),
    by_user: gettext("SIGTERM: stopped by hand"),
    over_memory: gettext("SIGTERM: over its memory"),
    scale_down: gettext("SIGTERM: scaled down"),
  }[MARKER.exec(made.text)?.[1] ?? ""];
  return `${made.prefix}${why ?? made.text.replaceAll("-", "").trim()}`;
}

function line(text, at, prefix) {
  const level = ERROR.test(text) ? "error" : WARNING.test(text) ? "warning" : "";
  return { text, at, prefix, level, marker: MARKER.test(text) || CUT.test(text) };
}

/** From an offset to the time at which it came, in milliseconds; 0: not known. */
function timesOf(piece) {
  const known = piece.times.map((each) => [each.offset, Date.parse(each.at)]);
  return (offset) => known.findLast(([from]) => from <= offset)?.[1] ?? 0;
}

const encoder = new TextEncoder();

function bytes(text) {
  return encoder.encode(text).length;
}
