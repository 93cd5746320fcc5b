// @ts-check
/** The form of a report: dates matter only for a period of one's own, empty words stay out of the address. */

export function start(form) {
  const custom = () => {
    const own = form.elements.period.value === "custom";
    for (const label of form.querySelectorAll("[data-custom]")) label.hidden = !own;
  };
  custom();
  form.addEventListener("change", (event) => {
    custom();
    if (event.target.matches("select") && form.elements.period.value !== "custom") form.requestSubmit();
  });
  form.addEventListener("formdata", (event) => {
    const own = event.formData.get("period") === "custom";
    for (const [name, value] of [...event.formData.entries()]) {
      if (!value || (!own && (name === "from" || name === "to"))) event.formData.delete(name);
    }
  });
}
