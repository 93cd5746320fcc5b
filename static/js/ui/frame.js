// @ts-check
/** The frame: theme, menu, search box, dialogs, keys, times. */
import { start as startKeys } from "./keys.js";
import { start as startTimes } from "./times.js";
import { toast } from "./toast.js";

export function start(bar) {
  startTimes();
  startKeys();
  bar.querySelector("[data-theme-switch]")?.addEventListener("click", switchTheme);
  bar.querySelector("[data-menu]")?.addEventListener("click", (event) => switchMenu(event.currentTarget));
  document.addEventListener("click", onClick);
  document.addEventListener("submitted", onSubmitted);
  document.addEventListener("htmx:afterSwap", onSwapped);
  startFind(bar.querySelector(".find"));
  reachWhatScrolls();
  addEventListener("resize", reachWhatScrolls);
  for (const dialog of document.querySelectorAll("dialog[data-open]")) dialog.showModal();
}

/** What scrolls is reached by keys too. */
function reachWhatScrolls() {
  for (const place of document.querySelectorAll(".scroll")) {
    if (place.scrollWidth > place.clientWidth || place.scrollHeight > place.clientHeight) place.tabIndex = 0;
    else place.removeAttribute("tabindex");
  }
}

/** The list under the search box: arrow keys move in it, Escape and a press elsewhere close it. */
function startFind(form) {
  const box = form?.querySelector("input");
  const found = form?.querySelector("[data-found]");
  if (!box || !found) return;
  const close = () => found.replaceChildren();
  document.addEventListener("click", (event) => !form.contains(event.target) && close());
  form.addEventListener("keydown", (event) => {
    const links = [box, ...found.querySelectorAll("a")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      close();
      box.focus();
    } else if (step && links.length > 1) {
      event.preventDefault();
      const at = links.indexOf(document.activeElement);
      links[(at + step + links.length) % links.length].focus();
    }
  });
}

/** Light or dark, kept in a cookie so that the server paints it right from the start. */
function switchTheme() {
  const root = document.documentElement;
  const shown = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const next = shown === "dark" ? "light" : "dark";
  root.dataset.theme = next;
  document.cookie = `tidegate_theme=${next};path=/;max-age=31536000;samesite=lax`;
  const icon = document.querySelector("[data-theme-icon]");
  icon?.setAttribute("href", `${root.dataset.icons}#${next === "dark" ? "moon" : "sun"}`);
  dispatchEvent(new Event("theme"));
}

function switchMenu(button) {
  const open = document.getElementById("rail").classList.toggle("open");
  button.setAttribute("aria-expanded", String(open));
}

function onClick(event) {
  const opener = event.target.closest("[data-open-form]");
  if (opener && !event.ctrlKey && !event.metaKey && globalThis.htmx) {
    event.preventDefault();
    openForm(opener.dataset.openForm);
    return;
  }
  const confirm = event.target.closest("[data-confirm]");
  if (confirm) document.querySelector(`[data-confirm-dialog="${confirm.dataset.confirm}"]`)?.showModal();
  const cancel = event.target.closest("dialog [data-cancel]");
  if (cancel) {
    event.preventDefault();
    cancel.closest("dialog").close();
  }
  if (event.target.closest("[data-keys]")) document.querySelector("[data-keys-list]")?.showModal();
  if (event.target instanceof HTMLDialogElement) event.target.close();
  const rail = document.getElementById("rail");
  if (rail?.classList.contains("open") && !event.target.closest("#rail, [data-menu]")) rail.classList.remove("open");
}

/** What is fetched into the dialog opens it. */
function onSwapped(event) {
  if (event.detail.target.id !== "dialog-body") return;
  const dialog = event.detail.target.closest("dialog");
  if (!dialog.open) dialog.showModal();
}

/** A form in the dialog was accepted: the page under it stays and says so. */
function onSubmitted(event) {
  event.target.closest("dialog")?.close();
  toast(event.detail);
}

async function openForm(address) {
  await globalThis.htmx.ajax("GET", address, { target: "#dialog-body", swap: "innerHTML" });
}
