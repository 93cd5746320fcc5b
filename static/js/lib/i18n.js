// @ts-check
/** Sentences in the reader's language: Django's JavaScript catalogue, with English where it is absent. */

export function gettext(text) {
  return globalThis.django?.gettext ? globalThis.django.gettext(text) : text;
}

export function ngettext(one, many, n) {
  if (globalThis.django?.ngettext) return globalThis.django.ngettext(one, many, n);
  return n === 1 ? one : many;
}

/** Fill the named places of a sentence: format("%(n)s nodes", {n: 8}). */
export function format(text, places) {
  return text.replace(/%\((\w+)\)s/g, (_whole, name) => String(places[name]));
}
