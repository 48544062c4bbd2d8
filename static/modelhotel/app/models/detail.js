// Everything about one model, and what can be done to it.
import { api, busy } from "../api.js";
import { confirm, open } from "../dialog.js";
import { age, exact, instant, money } from "../format.js";
import { toast } from "../toast.js";
import { h } from "../ui.js";
import { lossOf } from "../providers/ask.js";
import { editor } from "./editor.js";
import { abilities, listOf, proxyId, searches, status, title } from "./facts.js";
import { snippets } from "./snippets.js";
import { verdict } from "./verdict.js";

const COOL_DOWN = 30_000; // ms between two "Update info"
const asked = new Map(); // provider id -> when its models were asked for last

const button = (text, fn, more = {}) => h("button", { type: "button", class: "mh-btn mh-btn-quiet", ...more, on: { click: fn } }, text);
const code = (text) => h("button", { type: "button", class: "mh-copyable", dataset: { copyText: text }, title: "Copy" }, h("code", {}, text));
const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
const when = (iso) => (iso ? h("time", { datetime: iso, title: instant(iso) }, age(iso)) : "never");
const words = (text) => listOf(text).join(", ") || "–";
const price = (value) => (value === null ? "unknown" : value === 0 ? "free" : `${money(value)} per million tokens`);

export class Detail {
  /** *providers*: id -> provider of the page; *changed*() is called after every change made here. */
  constructor(row, { mayChange, providers, changed, closed }) {
    this.row = row;
    this.mayChange = mayChange;
    this.providers = providers;
    this.changed = changed;
    this.editing = false;
    this.leaving = false; // it is being deleted here
    this.note = h("p", { class: "mh-why", role: "status", hidden: true }, "This model was changed elsewhere in the meantime.");
    this.outcome = h("div", { class: "mh-test", role: "status" });
    this.body = h("div", {});
    this.dialog = h("dialog", { "data-size": "wide", "aria-label": `Model ${row.model_id}`, class: "mh-model-dialog" }, this.note, this.body);
    this.dialog.addEventListener("close", closed, { once: true });
    this.draw();
    this.close = open(this.dialog);
  }

  /** The model as it is now; what is being edited stays as it was typed. */
  async refresh() {
    if (this.leaving) return;
    const row = await api("GET", `/api/models/${this.row.id}`);
    if (JSON.stringify(row) === JSON.stringify(this.row)) return;
    if (this.editing) {
      this.note.hidden = false;
      return;
    }
    this.#take(row);
  }

  /** Somebody deleted it; what is typed can still be read. */
  gone() {
    if (this.leaving) return;
    this.note.hidden = false;
    this.note.textContent = "This model was deleted elsewhere in the meantime.";
  }

  #take(row) {
    this.row = row;
    this.note.hidden = true;
    this.draw();
  }

  draw() {
    this.editing = false;
    const { row } = this;
    this.body.replaceChildren(this.#head(row), this.#facts(row), this.#limits(row), this.#snippets(row), this.outcome, this.#actions(row));
  }

  #head(row) {
    const [tone, word, why] = status(row);
    const toggle = h("button", { type: "button", role: "switch", class: "mh-switch", "aria-checked": String(row.enabled), "aria-label": `${row.model_id} enabled`, disabled: !this.mayChange, on: { click: (event) => this.#toggle(event.currentTarget) } });
    return h(
      "header",
      { class: "mh-model-head" },
      // Where the keyboard starts: at the top, and on nothing that a stray key could press.
      h("h2", { tabindex: "-1", autofocus: true }, title(row)),
      h("span", { class: "mh-chip", dataset: { tone }, title: why }, word),
      toggle,
      row.description && h("p", { class: "mh-why mh-model-about" }, row.description),
    );
  }

  #facts(row) {
    const able = abilities(row);
    return h(
      "dl",
      { class: "mh-facts mh-model-facts" },
      fact("Clients ask for", code(proxyId(row))),
      fact("Id at the provider", code(row.model_id)),
      fact("Provider", row.provider_name, row.owned_by && h("span", { class: "mh-why" }, ` · owned by ${row.owned_by}`)),
      fact("Capabilities", able.length ? h("span", { class: "mh-chips" }, able.map((name) => h("span", { class: "mh-chip", dataset: { tone: "info" } }, name))) : "–"),
      fact("Modalities", `${words(row.input_modalities)} → ${words(row.output_modalities)}`),
      fact("Discovered", when(row.created_at)),
      fact("Last seen", when(row.last_seen_at)),
      fact("Row id", code(row.id)),
    );
  }

  #limits(row) {
    const pinned = row.price_customized && h("span", { class: "mh-chip", dataset: { tone: "info" }, title: "Edited by hand; scans leave these prices alone" }, "pinned");
    const reset = row.price_customized && this.mayChange && button("Reset to source", (event) => busy(event.currentTarget, this.#unpin()), { class: "mh-btn mh-btn-quiet mh-small" });
    return h(
      "section",
      { "aria-label": "Limits and prices" },
      h("h3", { class: "mh-part" }, "Limits and prices ", pinned, reset),
      h(
        "dl",
        { class: "mh-facts mh-model-facts" },
        fact("Context", row.context_length === null ? "unknown" : `${exact(row.context_length)} tokens`),
        fact("Max output", row.max_output_tokens === null ? "unknown" : `${exact(row.max_output_tokens)} tokens`),
        fact("Input", price(row.input_price_per_million)),
        fact("Cached input", price(row.input_price_per_million_cache_hit)),
        fact("Output", price(row.output_price_per_million)),
        searches(row) && fact("Search", row.search_price_per_thousand === null ? "unknown" : `${money(row.search_price_per_thousand)} per thousand search units`),
      ),
    );
  }

  #snippets(row) {
    const parts = snippets(proxyId(row), row, location.origin);
    const text = h("pre", { class: "mh-code", id: "model-snippet", tabindex: "0" });
    const copy = h("button", { type: "button", class: "mh-btn mh-btn-quiet mh-small", dataset: { copy: "model-snippet" } }, "Copy");
    const pills = parts.map(([name, body]) =>
      h("button", { type: "button", class: "mh-pill", "aria-pressed": "false", on: { click: (event) => choose(event.currentTarget, body) } }, name),
    );
    const choose = (pill, body) => {
      for (const one of pills) one.setAttribute("aria-pressed", String(one === pill));
      text.textContent = body;
    };
    choose(pills[0], parts[0][1]);
    return h("section", { "aria-label": "Snippets" }, h("h3", { class: "mh-part" }, "Use it"), h("div", { class: "mh-toolbar mh-snippet-bar" }, pills, h("span", { class: "mh-push" }), copy), text);
  }

  #actions(row) {
    const provider = this.providers.get(row.provider_id);
    const waits = COOL_DOWN - (Date.now() - (asked.get(row.provider_id) ?? -Infinity));
    const update = button("Update info", (event) => busy(event.currentTarget, this.#update()).then(() => this.draw()), {
      disabled: waits > 0 || !(provider && provider.discoverable),
      title: "Asks the provider for its models anew; once in 30 seconds",
    });
    if (waits > 0) setTimeout(() => this.dialog.open && !this.editing && (update.disabled = false), waits);
    return h(
      "div",
      { class: "mh-dialog-actions" },
      this.mayChange && [
        button("Test", (event) => busy(event.currentTarget, this.#test())),
        update,
        button("Edit", () => this.#edit()),
        button("Delete", (event) => busy(event.currentTarget, this.#delete()), { class: "mh-btn mh-btn-quiet mh-model-delete" }),
      ],
      h("button", { type: "button", class: "mh-btn", "data-close": true }, "Close"),
    );
  }

  #edit() {
    this.editing = true;
    const { element, focus } = editor(this.row, {
      cancel: () => this.draw(),
      save: async (given) => {
        this.#take(await api("PATCH", `/api/models/${this.row.id}`, given));
        toast(`${this.row.model_id} was saved.`, "success");
        this.changed();
      },
    });
    this.body.replaceChildren(element);
    focus();
  }

  async #toggle(control) {
    const wanted = !this.row.enabled;
    control.setAttribute("aria-checked", String(wanted));
    control.disabled = true;
    await this.#do(async () => {
      this.row = await api("PATCH", `/api/models/${this.row.id}`, { enabled: wanted });
      this.changed();
    });
    this.draw();
    this.dialog.querySelector('[role="switch"]').focus();
  }

  /** Runs *work*; what the API refuses becomes a toast. */
  async #do(work) {
    try {
      return await work();
    } catch (problem) {
      if (problem.name !== "ApiError") throw problem;
      toast(problem.message, "error");
      return null;
    }
  }

  async #unpin() {
    await this.#do(async () => {
      this.row = await api("PATCH", `/api/models/${this.row.id}`, { price_customized: false });
      this.changed();
      const provider = this.providers.get(this.row.provider_id);
      if (provider && provider.discoverable) await this.#update();
      else toast("The next discovery fills the prices again.", "info");
    });
    this.draw();
  }

  async #update() {
    asked.set(this.row.provider_id, Date.now());
    await this.#do(async () => {
      await api("POST", `/api/providers/${this.row.provider_id}/discover`);
      this.row = await api("GET", `/api/models/${this.row.id}`);
      this.changed();
    });
  }

  async #test() {
    this.outcome.replaceChildren(h("p", { class: "mh-why" }, "Sending a small request…"));
    try {
      this.outcome.replaceChildren(...verdict(await api("POST", `/api/models/${this.row.id}/test?allow_disabled=true`)));
    } catch (problem) {
      if (problem.name !== "ApiError") throw problem;
      this.outcome.replaceChildren(h("p", { class: "mh-outcome", dataset: { tone: "bad" } }, problem.message));
    }
  }

  async #delete() {
    const found = await this.#do(() => api("GET", `/api/models/${this.row.id}/dependents`));
    if (!found) return;
    const agreed = await confirm({
      title: `Delete ${proxyId(this.row)}?`,
      affects: lossOf(found.groups),
      text: "The next discovery adds it again if its provider still offers it, without edits made here; switch it off to keep it away.",
    });
    if (!agreed) return;
    this.leaving = true;
    await this.#do(async () => {
      await api("DELETE", `/api/models/${this.row.id}`);
      toast(`${this.row.model_id} was deleted.`, "success");
      this.close();
      this.changed();
    });
    this.leaving = false;
  }
}
