// @ts-check
/** Filters apply when they are chosen; the address holds them. */

export function start(form) {
  form.addEventListener("change", (event) => {
    if (event.target.matches("select, input[type=checkbox][name]")) form.requestSubmit();
  });
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData.entries()]) if (!value) event.formData.delete(name);
  });
}
