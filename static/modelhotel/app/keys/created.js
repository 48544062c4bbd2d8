// The one time a key is shown: with what a client needs to use it at once.
import { busy } from "../api.js";
import { open } from "../dialog.js";
import { duration } from "../format.js";
import { h } from "../ui.js";
import { choices, snippets } from "./snippets.js";

/** Another process learns of a new key within a second: so often, this many ms apart, it is asked again. */
const TRIES = 5;
const AGAIN = 400;
/** Names offered; a list of ten thousand would be of no use. */
const OFFERED = 300;
const PLACEHOLDER = "hotel/<group>";

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
    Object.assign(this, { made, base, endpoints, providersPage });
    this.chosen = "curl";
    this.leaving = new AbortController();
    this.model = h("select", { class: "mh-input", id: "key-model" }, h("option", {}, PLACEHOLDER));
    this.model.addEventListener("change", () => this.#draw());
    this.tabs = h("div", { class: "mh-keys-tabs", role: "tablist", "aria-label": "Ready to run" });
    this.code = h("code", { id: "key-snippet" });
    this.hint = h("p", { class: "mh-why" });
    this.panel = h("div", { role: "tabpanel", id: "key-panel", class: "mh-keys-panel" }, h("pre", { class: "mh-keys-code", tabindex: 0 }, this.code), h("button", { type: "button", class: "mh-btn mh-btn-quiet", "data-copy": "key-snippet" }, "Copy snippet"), this.hint);
    this.ask = h("button", { type: "button", class: "mh-btn mh-btn-quiet", disabled: true }, "Send a test request");
    this.ask.addEventListener("click", () => busy(this.ask, this.#try()));
    this.outcome = h("div", { class: "mh-keys-outcome", role: "status" });
    this.reminder = h("p", { class: "mh-keys-error", role: "alert" });
    this.saved = h("button", { type: "button", class: "mh-btn" }, "I saved it");
    this.element = h("dialog", { class: "mh-keys-dialog mh-keys-created", "data-size": "wide", closedby: "none" }, this.#body());
    this.#draw();
  }

  #body() {
    return [
      h("h2", {}, `Your new key “${this.made.name}”`),
      h("p", { class: "mh-keys-once" }, h("strong", {}, "Copy it now."), " Only its fingerprint is stored: it cannot be shown again."),
      h("div", { class: "mh-keys-secret" }, h("code", { id: "key-text" }, this.made.key), h("button", { type: "button", class: "mh-btn", "data-copy": "key-text", autofocus: true }, "Copy key")),
      h("dl", { class: "mh-keys-facts" }, h("dt", {}, "Base address"), h("dd", {}, h("code", { "data-copy": "", tabindex: 0, title: "Copy" }, this.base)), h("dt", {}, h("label", { for: "key-model" }, "Model")), h("dd", {}, this.model), h("dt", {}, "Endpoints"), h("dd", { class: "mh-why" }, this.endpoints)),
      this.tabs,
      this.panel,
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
      found = choices(await listed(this.base, this.made.key));
    } catch {
      this.#say("bad", "The list of models could not be read. The key is good all the same.");
      return;
    }
    const { groups, models } = found;
    const option = (id) => h("option", { value: id }, id);
    const part = (label, ids) => ids.length > 0 && h("optgroup", { label }, ids.map(option));
    const shown = groups.slice(0, OFFERED);
    const rest = models.slice(0, OFFERED - shown.length);
    if (!shown.length && !rest.length) {
      this.outcome.replaceChildren(h("span", { class: "mh-why" }, "No model is there for this key yet: ", h("a", { class: "mh-link", href: this.providersPage }, "add a provider"), "."));
      return;
    }
    this.model.replaceChildren(...[part("Failover groups", shown), part("Models", rest)].filter(Boolean));
    this.ask.disabled = false;
    this.#draw();
  }

  #draw() {
    const all = snippets(this.base, this.made.key, this.model.value || PLACEHOLDER);
    const at = all.findIndex((one) => one.name === this.chosen);
    this.code.textContent = all[at].text;
    this.hint.textContent = all[at].hint;
    this.panel.setAttribute("aria-labelledby", `key-tab-${at}`);
    const tabs = all.map((one, index) => this.#tab(one.name, index, index === at, all));
    this.tabs.replaceChildren(...tabs);
  }

  #tab(name, index, selected, all) {
    const choose = (to) => {
      this.chosen = all[(to + all.length) % all.length].name;
      this.#draw();
      this.tabs.querySelector("[aria-selected=true]").focus();
    };
    return h(
      "button",
      {
        type: "button", class: "mh-pill", role: "tab", id: `key-tab-${index}`, "aria-controls": "key-panel", "aria-selected": String(selected), tabindex: selected ? 0 : -1,
        on: {
          click: () => choose(index),
          keydown: (event) => {
            const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
            if (step) choose(index + step);
          },
        },
      },
      name,
    );
  }

  /** Asks the chosen model one small question with the new key, as a client would. */
  async #try() {
    const model = this.model.value;
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
