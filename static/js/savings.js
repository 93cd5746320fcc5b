// @ts-check
/** The sliders of the savings page: their number beside them, the account worked out when let go. */

export function start(form) {
  for (const slider of form.querySelectorAll('input[type="range"]')) {
    slider.addEventListener("input", () => {
      slider.closest("label").querySelector("[data-output]").textContent = slider.value;
    });
    slider.addEventListener("change", () => form.requestSubmit());
  }
}
