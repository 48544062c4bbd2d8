// The one time a key is shown: with what a client needs to use it at once.
import { busy } from "../api.js";
import { open } from "../dialog.js";
import { duration } from "../format.js";
import { h } from "../ui.js";
import { Clients } from "./clients.js";

/** Another process learns of a new key within a second: so often, this many ms apart, it is asked again. */
const TRIES = 5;
const AGAIN = 400;

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

async function decoded(response) {
  try {
    return await response.json();
  } catch {
    return null;
  }
}

/** The entries of /v1/models that the key may use. Rejects when they can not be had. */
async function listed(base, key) {
  for (let tried = 1; ; tried += 1) {
    const response = await fetch(`${base}/models`, { headers: { Authorization: `Bearer ${key}` }, credentials: "omit" });
    if (response.ok) return (await response.json()).data;
    if (response.status !== 401 || tried === TRIES) throw new Error(`models: status ${response.status}`);
    await wait(AGAIN);
  }
}

export class CreatedDialog {
  /** *made*: the API's answer with the key in it. */
  constructor(made, { base, endpoints, providersPage }) {
    Object.assign(this, { made, base, providersPage });
    this.leaving = new AbortController();
    this.clients = new Clients(base, made.key, endpoints);
    this.ask = h("button", { type: "button", class: "mh-btn mh-btn-quiet", disabled: true }, "Send a test request");
    this.ask.addEventListener("click", () => busy(this.ask, this.#try()));
    this.outcome = h("div", { class: "mh-keys-outcome", role: "status" });
    this.reminder = h("p", { class: "mh-keys-error", role: "alert" });
    this.saved = h("button", { type: "button", class: "mh-btn" }, "I saved it");
    this.element = h("dialog", { class: "mh-keys-dialog mh-keys-created", "data-size": "wide", closedby: "none" }, this.#body());
  }

  #body() {
    return [
      h("h2", {}, `Your new key “${this.made.name}”`),
      h("p", { class: "mh-keys-once" }, h("strong", {}, "Copy it now."), " Only its fingerprint is stored: it cannot be shown again."),
      h("div", { class: "mh-keys-secret" }, h("code", { id: "key-text" }, this.made.key), h("button", { type: "button", class: "mh-btn", "data-copy": "key-text", autofocus: true }, "Copy key")),
      this.clients.facts,
      this.clients.parts,
      h("div", { class: "mh-keys-try" }, this.ask, this.outcome),
      this.reminder,
      h("div", { class: "mh-dialog-actions" }, this.saved),
    ];
  }

  show() {
    const close = open(this.element);
    const stay = (event) => {
      event.preventDefault();
      this.reminder.textContent = "Copy the key first, then press “I saved it”.";
    };
    this.element.addEventListener("cancel", stay);
    this.element.addEventListener("keydown", (event) => event.key === "Escape" && stay(event));
    this.saved.addEventListener("click", () => {
      this.leaving.abort();
      close();
    });
    this.#models();
  }

  async #models() {
    let found;
    try {
      found = await listed(this.base, this.made.key);
    } catch {
      this.#say("bad", "The list of models could not be read. The key is good all the same.");
      return;
    }
    if (this.clients.offer(found)) this.ask.disabled = false;
    else this.outcome.replaceChildren(h("span", { class: "mh-why" }, "No model is there for this key yet: ", h("a", { class: "mh-link", href: this.providersPage }, "add a provider"), "."));
  }

  /** Asks the chosen model one small question with the new key, as a client would. */
  async #try() {
    const { model } = this.clients;
    this.#say("info", `Asking ${model} …`);
    const began = performance.now();
    try {
      const response = await fetch(`${this.base}/chat/completions`, {
        method: "POST",
        headers: { Authorization: `Bearer ${this.made.key}`, "Content-Type": "application/json" },
        body: JSON.stringify({ model, messages: [{ role: "user", content: "Say hello in five words." }] }),
        credentials: "omit",
        signal: this.leaving.signal,
      });
      const answer = await decoded(response);
      const took = duration(performance.now() - began);
      const provider = response.headers.get("X-ModelHotel-Provider");
      if (response.ok) this.#answered(answer, provider ? `${provider}, ${took}` : took);
      else this.#say("bad", `${response.status}: ${answer?.error?.message || "no answer"}`);
    } catch (problem) {
      if (problem.name !== "AbortError") this.#say("bad", "The gateway cannot be reached.");
    }
  }

  #answered(answer, by) {
    const said = answer?.choices?.[0]?.message?.content;
    this.outcome.replaceChildren(
      h("span", { class: "mh-chip", dataset: { tone: "good" } }, `answered by ${by}`),
      h("span", { class: "mh-keys-said" }, typeof said === "string" && said ? said.slice(0, 400) : "(an answer without text)"),
    );
  }

  #say(tone, text) {
    this.outcome.replaceChildren(h("span", { class: "mh-keys-said", dataset: { tone } }, text));
  }
}
