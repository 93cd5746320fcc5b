// @ts-check
/** A workload's page: its body is fetched again while the page is open and seen. */
import { showTimes } from "./times.js";

const EVERY_MS = 2500;

export function start(body) {
  setInterval(() => {
    if (!document.hidden && !document.querySelector("dialog[open]")) refresh(body);
  }, EVERY_MS);
}

async function refresh(body) {
  let answer;
  try {
    answer = await fetch(body.dataset.address, { headers: { "HX-Request": "true" } });
  } catch {
    document.body.classList.add("stale");
    return;
  }
  document.body.classList.toggle("stale", !answer.ok);
  if (!answer.ok || answer.redirected) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const before = phaseOf(body);
  body.replaceChildren(...fresh.body.childNodes);
  showTimes(body);
  sayNow(body);
  if (phaseOf(body) !== before) location.assign(body.dataset.address);
}

/** Bring the question before a stop up to date: what is saved by now, and what would be lost. */
function sayNow(body) {
  for (const said of body.querySelectorAll("[data-says]")) {
    const place = document.querySelector(`[data-says-now="${said.dataset.says}"]`);
    if (place) place.textContent = said.textContent;
  }
}

function phaseOf(body) {
  return body.querySelector("[data-phase]")?.dataset.phase ?? "";
}
