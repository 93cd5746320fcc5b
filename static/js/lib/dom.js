// @ts-check
/** Elements without markup strings: text only ever goes in as text. */

const SVG = "http://www.w3.org/2000/svg";

/** Make an element with attributes and children (strings become text). */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Make an SVG element. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** Set attributes, only those that differ. */
export function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) node.removeAttribute(name);
    else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
  }
  return node;
}

/** Set text, only if it differs. */
export function text(node, value) {
  if (node && node.textContent !== value) node.textContent = value;
}

/** Put a sentence of spans `[text, strong, workload id]` into a node. */
export function sentence(node, spans) {
  node.replaceChildren(...spans.map(spanNode));
}

function spanNode([words, strong, workloadId]) {
  if (!strong) return document.createTextNode(words);
  const name = el("b", {}, words);
  return workloadId ? el("a", { href: `/workloads/${workloadId}` }, name) : name;
}

/** An icon of the sprite. */
export function icon(name) {
  return svg("svg", { class: "i", "aria-hidden": "true" }, svg("use", { href: `${document.documentElement.dataset.icons}#${name}` }));
}

/** The JSON that the server left in the page. */
export function embedded(id) {
  const node = document.getElementById(id);
  return node ? JSON.parse(node.textContent ?? "null") : null;
}

/** Whether movement is unwanted. */
export function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

function fill(node, attributes, children) {
  set(node, attributes);
  node.append(...children);
  return node;
}
