// @ts-check
/** The box that chooses all verifications or none. */

export function start(form) {
  const all = form.querySelector("[data-all]");
  const boxes = [...form.querySelectorAll('[name="number"]')];
  const show = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    all.checked = chosen === boxes.length;
    all.indeterminate = chosen > 0 && chosen < boxes.length;
  };
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    show();
  });
  for (const box of boxes) box.addEventListener("change", show);
}
