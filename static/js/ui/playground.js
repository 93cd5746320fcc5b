// @ts-check
/** The playground: one message through the gateway, the answer as it streams in. */
import { format, gettext } from "../lib/i18n.js";

export function start(section) {
  const form = section.querySelector("[data-play]");
  const stop = section.querySelector("[data-stop]");
  let request = null;
  stop.addEventListener("click", () => request?.abort());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    request?.abort();
    request = new AbortController();
    stop.hidden = false;
    await ask(section, request.signal);
    stop.hidden = true;
  });
}

async function ask(section, signal) {
  const answer = section.querySelector("[data-answer]");
  const told = section.querySelector("[data-told]");
  const began = performance.now();
  answer.hidden = false;
  answer.textContent = "";
  told.textContent = gettext("Waiting for a replica…");
  try {
    const response = await send(section, signal);
    if (!response.ok) {
      answer.textContent = (await response.json()).error.message;
      told.textContent = `HTTP ${response.status}`;
      return;
    }
    const first = performance.now();
    for await (const part of parts(response)) answer.textContent += part;
    const held = Number(response.headers.get("x-tidegate-queued-ms") ?? 0);
    told.textContent = format(gettext("First byte after %(first)s s, of which held %(held)s s; replica %(replica)s; %(all)s s in all."), {
      first: seconds(first - began),
      held: seconds(held),
      all: seconds(performance.now() - began),
      replica: response.headers.get("x-tidegate-replica") ?? "?",
    });
  } catch (error) {
    told.textContent = error.name === "AbortError" ? gettext("Stopped.") : String(error.message);
  }
}

async function send(section, signal) {
  const value = (id) => section.querySelector(id).value;
  const key = value("#play-key").trim() || (await lentKey(section.querySelector("[data-play]")));
  return fetch("/v1/chat/completions", {
    method: "POST",
    signal,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ model: value("#play-model"), stream: true, messages: [{ role: "user", content: value("#play-text") }] }),
  });
}

let lent = "";

/** A key for an hour, made when it is first needed and kept by this page alone. */
async function lentKey(form) {
  if (lent) return lent;
  const answer = await fetch(form.dataset.lend, { method: "POST", body: new FormData(form) });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error.message);
  lent = told.key;
  return lent;
}

/** The texts of a stream's events. */
async function* parts(response) {
  let rest = "";
  for await (const text of texts(response.body)) {
    rest += text;
    const events = rest.split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) {
      const data = event.replace(/^data: ?/, "");
      if (data === "[DONE]") return;
      const content = JSON.parse(data);
      if (content.error) throw new Error(content.error.message);
      yield content.choices?.[0]?.delta?.content ?? "";
    }
  }
}

async function* texts(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

function seconds(ms) {
  return (ms / 1000).toFixed(2);
}
