// @ts-check
/** The quota editor: a row without borrowing has no limit of its own; a draft is not left by accident. */

export function start(form) {
  let changed = form.dataset.begun === "yes";
  for (const box of form.querySelectorAll("input[data-over]")) bindLimit(form, box);
  form.addEventListener("input", () => {
    changed = true;
  });
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.getResponseHeader("HX-Redirect")) changed = false;
  });
  document.body.addEventListener("htmx:beforeOnLoad", (event) => {
    if (event.detail.xhr.getResponseHeader("HX-Redirect")) changed = false;
  });
  for (const leaving of form.querySelectorAll("[data-discard], [data-leaves]")) {
    leaving.addEventListener("click", () => {
      changed = false;
    });
  }
  addEventListener("beforeunload", (event) => {
    if (changed) event.preventDefault();
  });
}

function bindLimit(form, box) {
  const limit = form.elements.namedItem(box.name.replace("-over", "-limit"));
  const follow = () => {
    limit.disabled = !box.checked;
  };
  box.addEventListener("input", follow);
  follow();
}
