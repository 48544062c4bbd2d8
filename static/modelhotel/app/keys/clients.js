// Snippets for every client, one tab each, and the model they name.
import { h } from "../ui.js";
import { PLACEHOLDER_MODEL, choices, snippets } from "./snippets.js";

/** Names offered; a list of ten thousand would be of no use. */
const OFFERED = 300;
const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

/** *facts* (address, model) and *parts* (tabs, snippet) are elements for the dialog around it. */
export class Clients {
  constructor(base, key, endpoints) {
    Object.assign(this, { base, key });
    this.chosen = 0;
    this.entries = new Map();
    this.select = h("select", { class: "mh-input", id: "key-model" }, h("option", {}, PLACEHOLDER_MODEL));
    this.select.addEventListener("change", () => this.#draw());
    const address = h("code", { "data-copy": "", tabindex: 0, title: "Copy" }, base);
    this.facts = h("dl", { class: "mh-keys-facts" }, h("dt", {}, "Base address"), h("dd", {}, address), h("dt", {}, h("label", { for: "key-model" }, "Model")), h("dd", {}, this.select), h("dt", {}, "Endpoints"), h("dd", { class: "mh-why" }, endpoints));
    this.tabs = this.#all().map((one, index) => this.#tab(one.name, index));
    this.code = h("code", { id: "key-snippet" });
    this.pre = h("pre", { class: "mh-keys-code", tabindex: 0, role: "region" }, this.code);
    this.hint = h("p", { class: "mh-why" });
    this.panel = h("div", { role: "tabpanel", id: "key-panel", class: "mh-keys-panel" }, this.pre, h("button", { type: "button", class: "mh-btn mh-btn-quiet", "data-copy": "key-snippet" }, "Copy snippet"), this.hint);
    this.parts = [h("div", { class: "mh-keys-tabs", role: "tablist", "aria-label": "Ready to run" }, this.tabs), this.panel];
    this.#draw();
  }

  get model() {
    return this.select.value || PLACEHOLDER_MODEL;
  }

  /** Offers *entries*, as /v1/models lists them, the groups first. False when there are none. */
  offer(entries) {
    this.entries = new Map(entries.map((entry) => [entry.id, entry]));
    const { groups, models } = choices(entries);
    const part = (label, ids) => ids.length > 0 && h("optgroup", { label }, ids.map((id) => h("option", { value: id }, id)));
    const shown = groups.slice(0, OFFERED);
    const rest = models.slice(0, OFFERED - shown.length);
    if (!shown.length && !rest.length) return false;
    this.select.replaceChildren(...[part("Failover groups", shown), part("Models", rest)].filter(Boolean));
    this.#draw();
    return true;
  }

  #all() {
    return snippets(this.base, this.key, this.model, this.entries.get(this.model));
  }

  #draw() {
    const { name, text, hint } = this.#all()[this.chosen];
    this.code.textContent = text;
    this.hint.textContent = hint;
    this.pre.setAttribute("aria-label", `Snippet for ${name}`);
    this.panel.setAttribute("aria-labelledby", `key-tab-${this.chosen}`);
    this.tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === this.chosen));
      tab.tabIndex = index === this.chosen ? 0 : -1;
    });
  }

  #choose(index) {
    this.chosen = (index + this.tabs.length) % this.tabs.length;
    this.pre.scrollTo(0, 0);
    this.#draw();
    this.tabs[this.chosen].focus();
  }

  #tab(name, index) {
    const pressed = (event) => {
      const to = { Home: 0, End: this.tabs.length - 1 }[event.key] ?? (event.key in STEPS ? index + STEPS[event.key] : null);
      if (to === null) return;
      event.preventDefault();
      this.#choose(to);
    };
    return h("button", { type: "button", class: "mh-pill", role: "tab", id: `key-tab-${index}`, "aria-controls": "key-panel", on: { click: () => this.#choose(index), keydown: pressed } }, name);
  }
}
