// @ts-check
/** A table that is kept current in place: rows never jump; what would move them is said, and shown on demand. */
import { set, text } from "../lib/dom.js";
import { format, ngettext } from "../lib/i18n.js";
import { showTimes } from "./times.js";

const EVERY_MS = 3000;
/** So many rows are kept current, counted from the first. */
const MOST_LIVE = 300;
const KEPT_S = 31536000;

export function start(place) {
  new Rows(place).start();
}

class Rows {
  constructor(place) {
    this.place = place;
    this.news = place.querySelector("[data-show]");
    this.fresh = null;
    this.loading = false;
  }

  start() {
    startColumns(this.place);
    this.news.addEventListener("click", () => this.#show());
    const more = this.place.querySelector("a[data-more]");
    more?.addEventListener("click", (event) => {
      event.preventDefault();
      this.#more(more);
    });
    if (more) new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && this.#more(more), { rootMargin: "200px" }).observe(more);
    setInterval(() => {
      if (!document.hidden && !document.querySelector("dialog[open]")) this.#refresh();
    }, EVERY_MS);
  }

  get body() {
    return this.place.querySelector("[data-rows]");
  }

  async #refresh() {
    if (!this.body || this.loading) return;
    const asked = new URLSearchParams(location.search);
    asked.set("shown", idsOf(this.body).slice(0, MOST_LIVE).join());
    const found = await this.#fetch(asked);
    if (!found || this.loading) return;
    this.fresh = found;
    const now = new Map([...found.querySelectorAll("tr[data-id]")].map((row) => [row.dataset.id, row]));
    const shown = [...this.body.children].slice(0, MOST_LIVE);
    for (const row of shown) {
      if (now.has(row.dataset.id)) showRow(row, now.get(row.dataset.id));
      else row.classList.add("gone");
    }
    showTimes(this.body);
    this.#say(idsOf(found.querySelector("[data-page]")), idsOf(this.body));
    document.getElementById("workloads-found")?.replaceChildren(...found.querySelector("[data-found]").cloneNode(true).childNodes);
  }

  /** Say how many rows would come, go or move. */
  #say(now, shown) {
    const first = shown.slice(0, now.length);
    const come = now.filter((id) => !shown.includes(id)).length;
    const left = first.filter((id) => !now.includes(id)).length;
    const moved = now.filter((id, at) => shown.includes(id) && first.includes(id) && first[at] !== id).length;
    const changes = come || left ? Math.max(come, left) : moved;
    this.news.hidden = !changes;
    text(this.news, format(ngettext("%(n)s change, show", "%(n)s changes, show", changes), { n: changes }));
  }

  #show() {
    if (!this.fresh || !this.body) return location.reload();
    const chosen = new Set([...this.body.querySelectorAll("input:checked")].map((box) => box.value));
    const rows = [...this.fresh.querySelectorAll("[data-page] > tr")].map((row) => document.importNode(row, true));
    for (const row of rows) for (const box of row.querySelectorAll("input")) box.checked = chosen.has(box.value);
    this.body.replaceChildren(...rows);
    showTimes(this.body);
    const more = this.place.querySelector("a[data-more]");
    const next = this.fresh.querySelector("a[data-more]");
    if (more && next) set(more, { href: next.getAttribute("href") });
    if (more) more.hidden = !next;
    this.news.hidden = true;
    this.body.dispatchEvent(new Event("change", { bubbles: true }));
  }

  async #more(link) {
    if (this.loading || link.hidden) return;
    this.loading = true;
    const found = await this.#fetch(new URL(link.href).searchParams);
    this.loading = false;
    if (!found) return;
    const shown = new Set(idsOf(this.body));
    const rows = [...found.querySelectorAll("[data-page] > tr")].filter((row) => !shown.has(row.dataset.id));
    this.body.append(...rows.map((row) => document.importNode(row, true)));
    showTimes(this.body);
    const next = found.querySelector("a[data-more]");
    if (next) set(link, { href: next.getAttribute("href") });
    else link.hidden = true;
  }

  async #fetch(asked) {
    try {
      const answer = await fetch(`${this.place.dataset.address}?${asked}`);
      document.body.classList.toggle("stale", !answer.ok);
      if (!answer.ok || answer.redirected) return null;
      return new DOMParser().parseFromString(await answer.text(), "text/html");
    } catch {
      document.body.classList.add("stale");
      return null;
    }
  }
}

/** @returns {string[]} */
function idsOf(body) {
  return body ? [...body.children].map((row) => row.dataset.id) : [];
}

/** Bring a row's cells up to date; the box that is ticked stays. */
function showRow(row, fresh) {
  row.classList.remove("gone");
  [...fresh.cells].forEach((cell, at) => {
    const shown = row.cells[at];
    if (!shown || cell.classList.contains("pick") || said(shown) === said(cell)) return;
    shown.replaceChildren(...[...cell.childNodes].map((node) => document.importNode(node, true)));
    set(shown, { "data-since": cell.dataset.since });
    shown.classList.add("changed");
    setTimeout(() => shown.classList.remove("changed"), 400);
  });
}

/** What a cell says, apart from ages and times, which the page writes itself. */
function said(cell) {
  const copy = cell.cloneNode(true);
  for (const node of [copy, ...copy.querySelectorAll("[data-since], time[data-ms]")]) {
    if (node.dataset.since || node.dataset.ms) node.textContent = node.dataset.since ?? node.dataset.ms;
    if (node.matches("time")) node.removeAttribute("title");
  }
  return `${cell.dataset.since ?? ""}${copy.innerHTML}`;
}

/** Which columns are shown: kept in a cookie, so that the server leaves them out from the start. */
function startColumns(place) {
  const choice = document.querySelector("[data-columns]");
  choice?.addEventListener("change", () => {
    const hidden = [...choice.querySelectorAll("input:not(:checked)")].map((box) => box.value);
    document.cookie = `tidegate_hidden_columns=${hidden.join(".")};path=/;max-age=${KEPT_S};samesite=lax`;
    const table = place.querySelector("table[data-hidden]");
    if (table) table.dataset.hidden = hidden.join(" ");
  });
}
