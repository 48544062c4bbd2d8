// Choosing members: what is chosen in priority order, and the models to choose from by provider.
import { debounce, h } from "../ui.js";
import { label, unusable } from "./rules.js";

/** Models listed of one provider before the search has to narrow them: a list of 10,000 is no choice. */
const SHOWN = 200;

const icon = (name) => h("span", { class: "material-symbols-outlined", "aria-hidden": "true" }, name);

export class Picker {
  /** *candidates* as of the API, *entries* the members so far; *changed()* after each change of the choice. */
  constructor(candidates, entries, changed) {
    this.changed = changed;
    this.byId = new Map(candidates.map((one) => [one.model_uuid, one]));
    this.byProvider = new Map();
    for (const one of candidates) {
      if (!this.byProvider.has(one.provider_name)) this.byProvider.set(one.provider_name, []);
      this.byProvider.get(one.provider_name).push(one);
    }
    this.chosen = entries.map((entry) => ({
      id: entry.model_uuid,
      label: label(entry),
      entry,
      unavailable: !this.byId.has(entry.model_uuid) || unusable(entry) !== null,
    }));
    this.count = h("strong", { "aria-live": "polite" });
    this.list = h("ol", { class: "mh-chosen" });
    this.search = h("input", { type: "search", class: "mh-input", placeholder: "Search models", "aria-label": "Search models" });
    this.search.addEventListener("input", debounce(() => this.#offer(), 150));
    this.search.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
    this.offers = h("div", { class: "mh-offers" });
    this.element = h(
      "fieldset",
      { class: "mh-picker" },
      h("legend", {}, "Members, first = asked first ", this.count),
      this.list,
      this.search,
      this.offers,
    );
    this.#draw();
    this.#offer();
  }

  keep(members) {
    this.chosen = members;
    this.#draw();
    this.#marks();
    this.changed();
  }

  /** A member whose model answers again. */
  revive(id) {
    const one = this.chosen.find((member) => member.id === id);
    one.unavailable = false;
    one.entry = { ...one.entry, model_enabled: true };
    this.#draw();
  }

  #move(at, by) {
    const [one] = this.chosen.splice(at, 1);
    this.chosen.splice(at + by, 0, one);
    this.#draw();
    const buttons = this.list.children[at + by].querySelectorAll("button");
    const wanted = buttons[by < 0 ? 0 : 1];
    (wanted.disabled ? buttons[by < 0 ? 1 : 0] : wanted).focus();
    this.changed();
  }

  #draw() {
    const last = this.chosen.length - 1;
    this.count.textContent = `${this.chosen.length} selected`;
    const button = (name, title, act, disabled) =>
      h("button", { type: "button", class: "mh-icon-btn", "aria-label": title, title, disabled, on: { click: act } }, icon(name));
    this.list.replaceChildren(
      ...this.chosen.map((one, at) =>
        h(
          "li",
          {},
          h("span", { class: "mh-place", "aria-hidden": "true" }, String(at + 1)),
          h("span", { class: "mh-member-name" }, one.unavailable ? `${one.label} (unavailable)` : one.label),
          button("keyboard_arrow_up", `Move ${one.label} up`, () => this.#move(at, -1), at === 0),
          button("keyboard_arrow_down", `Move ${one.label} down`, () => this.#move(at, 1), at === last),
          button("close", `Take out ${one.label}`, () => this.#choose(one.id, false)),
        ),
      ),
    );
  }

  #choose(id, to) {
    const one = this.byId.get(id);
    if (to && one) this.chosen.push({ id, label: label(one), entry: null, unavailable: false });
    else this.chosen = this.chosen.filter((member) => member.id !== id);
    this.#draw();
    this.#marks();
    this.changed();
  }

  #marks() {
    const ids = new Set(this.chosen.map((one) => one.id));
    for (const box of this.offers.querySelectorAll("input")) box.checked = ids.has(box.value);
  }

  #offer() {
    const wanted = this.search.value.trim().toLowerCase();
    const parts = [];
    for (const [provider, models] of [...this.byProvider].sort((a, b) => a[0].localeCompare(b[0]))) {
      const fits = models.filter((one) => !wanted || label(one).toLowerCase().includes(wanted));
      if (fits.length) parts.push(this.#part(provider, fits, Boolean(wanted)));
    }
    const none = this.byId.size ? "No model matches." : "No enabled models yet: add a provider and discover its models.";
    this.offers.replaceChildren(...(parts.length ? parts : [h("p", { class: "mh-why" }, none)]));
    this.#marks();
  }

  #part(provider, models, open) {
    const body = h("div", { class: "mh-offer-list" });
    const fill = () => {
      if (body.childElementCount) return;
      body.append(...models.slice(0, SHOWN).map((one) => this.#model(one)));
      if (models.length > SHOWN) body.append(h("p", { class: "mh-why" }, `${models.length - SHOWN} more: search to find them.`));
      this.#marks();
    };
    const part = h("details", { on: { toggle: () => part.open && fill() } }, h("summary", {}, `${provider} (${models.length})`), body);
    part.open = open || this.byProvider.size <= 4;
    if (part.open) fill();
    return part;
  }

  #model(one) {
    const box = h("input", { type: "checkbox", value: one.model_uuid, class: "mh-check" });
    box.addEventListener("change", () => this.#choose(one.model_uuid, box.checked));
    return h("label", {}, box, one.model_id);
  }
}
