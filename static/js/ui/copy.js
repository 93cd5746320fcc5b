// @ts-check
/** A button that copies the text of another element, on pages without https too. */

const SAID_MS = 2000;

export function start(button) {
  const words = button.lastChild;
  const before = words.textContent;
  button.addEventListener("click", async () => {
    const copied = await copy(document.querySelector(button.dataset.from)?.textContent ?? "");
    if (!copied) return;
    words.textContent = button.dataset.done;
    setTimeout(() => {
      words.textContent = before;
    }, SAID_MS);
  });
}

async function copy(text) {
  if (navigator.clipboard && isSecureContext) {
    await navigator.clipboard.writeText(text);
    return true;
  }
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  return copied;
}
