// @ts-check
/** Keys: "/" searches, "g" and a letter goes somewhere, "?" lists them. Can be switched off. */

const PLACES = { o: "/", m: "/map", n: "/nodes", q: "/quotas", w: "/workloads", d: "/decisions", r: "/reports" };
const STORED = "tidegate.keys";

export function start() {
  const list = document.querySelector("[data-keys-list]");
  const box = list?.querySelector("[data-keys-on]");
  if (box) {
    box.checked = localStorage.getItem(STORED) !== "off";
    box.addEventListener("change", () => localStorage.setItem(STORED, box.checked ? "on" : "off"));
  }
  let going = false;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (localStorage.getItem(STORED) === "off") return;
    if (going && PLACES[event.key]) location.assign(PLACES[event.key]);
    going = event.key === "g";
    if (event.key === "/") {
      event.preventDefault();
      document.getElementById("find")?.focus();
    }
    if (event.key === "?") list?.showModal();
    if (event.key === ".") document.querySelector("[data-live-state]")?.click();
  });
}

function isTyping(target) {
  return target.closest("input:not([type=checkbox], [type=radio]), select, textarea, [contenteditable]") !== null;
}
