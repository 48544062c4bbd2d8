// The dialog in which a provider is added or changed; it shows what the chosen type needs.
import { api, ApiError, busy } from "../api.js";
import { open } from "../dialog.js";
import { duration } from "../format.js";
import { h } from "../ui.js";
import { fieldOf, freeName, hintOf, hostOf, isPrivate, nameOf, nameProblem, toSet, typeOf } from "./fields.js";
import { many } from "./scans.js";

const BY_ADDRESS = "";
let serial = 0;

/** A labelled field with room for a hint and for what the server says about it. */
class Field {
  constructor(name, title, control, ...beside) {
    const id = `provider-${name}-${(serial += 1)}`;
    control.id = id;
    control.name = name;
    this.control = control;
    this.hint = h("div", { class: "mh-hint", id: `${id}-hint` });
    this.error = h("div", { class: "mh-error", role: "alert", id: `${id}-error` });
    this.label = h("label", { for: id }, title);
    control.setAttribute("aria-describedby", `${id}-error ${id}-hint`);
    this.element = h("div", { class: "mh-field", dataset: { field: name } }, this.label, h("div", { class: "mh-beside" }, control, beside), this.error, this.hint);
    control.addEventListener("input", () => this.refuse(""));
  }

  refuse(text, lines = []) {
    this.control.toggleAttribute("aria-invalid", false);
    if (text) this.control.setAttribute("aria-invalid", "true");
    this.error.replaceChildren(text);
    if (lines.length) this.error.append(settings(lines));
  }
}

/** The environment that would allow a refused address. */
function settings(lines) {
  const text = lines.join("\n");
  return h(
    "div",
    { class: "mh-to-set" },
    h("span", {}, "To allow it, start the gateway with"),
    h("pre", { dataset: { copyText: text }, tabindex: "0", title: "Copy" }, text),
    h("span", {}, "ALLOWED_PROVIDER_HOSTS is a list: with it set, hosts that are not built in have to be named too."),
  );
}

export class ProviderForm {
  /** *data*: kinds and rules of addresses; *taken*: the other providers; *saved*(row, fresh) is called with what was stored. */
  constructor({ data, taken, provider = null, saved }) {
    this.kinds = new Map(data.kinds.map((kind) => [kind.type, kind]));
    this.rules = data.rules;
    this.taken = taken;
    this.provider = provider;
    this.saved = saved;
    this.suggested = "";
    this.#fields();
    this.#build();
    this.#typeChosen(true);
  }

  #fields() {
    const stored = this.provider;
    const known = [...this.kinds.values()].map((kind) => h("option", { value: kind.type }, kind.label));
    const select = h("select", { class: "mh-input" }, !stored && h("option", { value: BY_ADDRESS }, "By the address"), known);
    if (stored && !this.kinds.has(stored.provider_type)) select.append(h("option", { value: stored.provider_type }, stored.provider_type));
    select.value = stored ? stored.provider_type : BY_ADDRESS;
    this.type = new Field("provider_type", "Type", select);
    this.name = new Field("name", "Name", h("input", { class: "mh-input", maxlength: "100", autocomplete: "off", spellcheck: "false", value: stored ? stored.name : "" }));
    this.name.hint.textContent = "Clients ask for its models as name/model, blanks as hyphens.";
    this.unlock = h("button", { type: "button", class: "mh-btn mh-btn-quiet mh-small", hidden: true }, "Other address");
    const url = h("input", { class: "mh-input", type: "text", inputmode: "url", autocomplete: "off", spellcheck: "false", placeholder: "https://api.openai.com/v1", value: stored ? stored.base_url : "" });
    this.url = new Field("base_url", "Base address", url, this.unlock);
    this.show = h("button", { type: "button", class: "mh-btn mh-btn-quiet mh-small", "aria-pressed": "false" }, "Show");
    const has = stored && stored.masked_key !== "N/A";
    this.key = new Field("api_key", "API key", h("input", { class: "mh-input", type: "password", autocomplete: "new-password", spellcheck: "false", placeholder: has ? `stored: ${stored.masked_key}` : "" }), this.show);
    this.key.hint.textContent = has ? "Blank keeps the stored key." : "Stored encrypted and never shown again.";
    this.most = new Field("max_in_flight", "Most requests at once", h("input", { class: "mh-input", type: "text", inputmode: "numeric", autocomplete: "off", placeholder: "no ceiling", value: stored && stored.max_in_flight !== null ? String(stored.max_in_flight) : "" }));
    this.most.hint.textContent = "Empty: no ceiling. What the provider's busy answers teach is kept below it.";
    this.slow = new Field("circuit_breaker_slow_call_threshold", "Slow answer after", h("input", { class: "mh-input", type: "text", autocomplete: "off", placeholder: "as the setting says", value: (stored && stored.circuit_breaker_slow_call_threshold) || "" }));
    this.slow.hint.textContent = "A duration such as 60s; an answer that takes longer is charged to its circuit. 0s: never. Empty: Slow Call Threshold of the settings.";
    this.drop = this.#switch("Remove the stored key", "remove_key", false);
    this.enabled = this.#switch("Enabled", "enabled", stored ? stored.enabled : true);
    this.discovery = this.#switch("Its models may be discovered", "autodiscovery_enabled", stored ? stored.autodiscovery_enabled : true);
  }

  #switch(title, name, on) {
    const input = h("input", { type: "checkbox", role: "switch", class: "mh-switch", name });
    input.checked = on;
    return { input, element: h("label", { class: "mh-line" }, input, title) };
  }

  #build() {
    const stored = this.provider;
    this.note = h("p", { class: "mh-why", role: "status", hidden: true });
    this.alert = h("p", { class: "mh-refused", role: "alert", hidden: true });
    this.result = h("div", { class: "mh-test", role: "status" });
    this.tester = h("button", { type: "button", class: "mh-btn mh-btn-quiet" }, "Test connection");
    this.go = h("button", { type: "submit", class: "mh-btn" }, stored ? "Save" : "Add Provider");
    const form = h(
      "form",
      { class: "mh-provider-form", novalidate: true, autocomplete: "off" },
      h("h2", {}, stored ? `Edit ${stored.name}` : "Add a provider"),
      this.note,
      this.type.element,
      this.url.element,
      this.key.element,
      stored && this.drop.element,
      this.name.element,
      this.most.element,
      stored && this.slow.element,
      stored && this.enabled.element,
      stored && this.discovery.element,
      this.result,
      this.alert,
      h("div", { class: "mh-dialog-actions" }, this.tester, h("span", { class: "mh-push" }), h("button", { type: "button", class: "mh-btn mh-btn-quiet", "data-close": true }, "Cancel"), this.go),
    );
    this.dialog = h("dialog", {}, form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      busy(this.go, this.#save());
    });
    form.addEventListener("input", () => this.result.replaceChildren());
    this.tester.addEventListener("click", () => busy(this.tester, this.#test()));
    this.type.control.addEventListener("change", () => this.#typeChosen(false));
    this.url.control.addEventListener("input", () => this.#recognise());
    this.unlock.addEventListener("click", () => this.#unlocked());
    this.show.addEventListener("click", () => this.#reveal());
  }

  open() {
    this.close = open(this.dialog);
    const first = this.provider ? this.name : this.type;
    first.control.focus();
  }

  /** The provider was changed elsewhere while this dialog is open: what was typed stays. */
  foreign() {
    this.note.hidden = false;
    this.note.textContent = "This provider was changed elsewhere in the meantime. Saving writes only what you change here.";
  }

  get #kind() {
    const chosen = this.type.control.value;
    return this.kinds.get(chosen === BY_ADDRESS ? typeOf(this.url.control.value, this.rules) : chosen);
  }

  #typeChosen(first) {
    const kind = this.kinds.get(this.type.control.value);
    const input = this.url.control;
    if (!first) {
      const presets = [...this.kinds.values()].map((one) => one.address).filter(Boolean);
      if (kind && kind.address) input.value = kind.address;
      else if (presets.includes(input.value)) input.value = "";
    }
    const locked = Boolean(kind && kind.address && input.value === kind.address);
    input.readOnly = locked;
    this.unlock.hidden = !locked;
    input.placeholder = (kind && (kind.hint || kind.address)) || "https://api.openai.com/v1";
    this.#recognise();
    if (!first && kind) (kind.address ? this.key.control : input).focus();
  }

  #unlocked() {
    this.url.control.readOnly = false;
    this.unlock.hidden = true;
    this.url.control.focus();
    this.url.control.select();
  }

  #reveal() {
    const shown = this.key.control.type === "text";
    this.key.control.type = shown ? "password" : "text";
    this.show.textContent = shown ? "Show" : "Hide";
    this.show.setAttribute("aria-pressed", String(!shown));
  }

  /** What follows from type and address: hints, whether a key is needed, a name to start with. */
  #recognise() {
    const kind = this.#kind;
    const address = this.url.control.value.trim();
    const host = hostOf(address);
    const derived = this.type.control.value === BY_ADDRESS;
    this.key.label.textContent = kind && kind.keyless ? "API key (optional)" : "API key";
    this.drop.element.hidden = !(this.provider && this.provider.masked_key !== "N/A" && kind && kind.keyless);
    if (this.drop.element.hidden) this.drop.input.checked = false;
    let hint = derived ? "Paste the address and the type is recognised, or choose one." : "";
    if (derived && kind) {
      hint = `Spoken to as ${kind.label}.`;
      if (isPrivate(host)) hint += " A server of your own? Choose Ollama, LM Studio, KoboldCPP or Custom above.";
    }
    this.type.hint.textContent = hint;
    const other = this.taken.find((one) => one.base_url.replace(/\/+$/, "") === address.replace(/\/+$/, ""));
    this.url.hint.textContent = other && address ? `${other.name} has the same address; that is fine with another key.` : "";
    this.#suggest(kind, host);
  }

  #suggest(kind, host) {
    const input = this.name.control;
    if (this.provider || (input.value && input.value !== this.suggested)) return;
    const vendor = kind && (this.type.control.value !== BY_ADDRESS || kind.type !== "openai" || host === "api.openai.com");
    const base = vendor ? kind.label : nameOf(host);
    this.suggested = base && freeName(base, this.taken.map((one) => one.name));
    input.value = this.suggested;
  }

  /** What is sent for the key: nothing when it stays. */
  #keyGiven() {
    if (this.drop.input.checked) return { api_key: "" };
    return this.key.control.value ? { api_key: this.key.control.value } : {};
  }

  /** null for no ceiling; what is no whole number goes as 0, which the server refuses in its own words. */
  get #mostGiven() {
    const text = this.most.control.value.trim();
    if (!text) return null;
    return /^\d+$/.test(text) ? Number(text) : 0;
  }

  #given() {
    const wanted = {
      name: this.name.control.value,
      provider_type: this.type.control.value,
      base_url: this.url.control.value,
      max_in_flight: this.#mostGiven,
      circuit_breaker_slow_call_threshold: this.slow.control.value.trim() || null,
      enabled: this.enabled.input.checked,
      autodiscovery_enabled: this.discovery.input.checked,
    };
    if (!this.provider) {
      const { name, provider_type, base_url, max_in_flight } = wanted;
      return { name, provider_type, base_url, max_in_flight, ...this.#keyGiven() };
    }
    const changed = Object.entries(wanted).filter(([field, value]) => value !== this.provider[field]);
    return { ...Object.fromEntries(changed), ...this.#keyGiven() };
  }

  #refused(problem) {
    if (!(problem instanceof ApiError)) throw problem;
    for (const field of this.#all()) field.refuse("");
    const code = problem.body && typeof problem.body === "object" ? problem.body.code : "";
    const at = this.#all().find((field) => field.control.name === fieldOf(problem.message, code));
    this.alert.hidden = Boolean(at);
    this.alert.textContent = at ? "" : problem.message;
    if (!at) return;
    at.refuse(problem.message, at === this.url ? toSet(this.url.control.value, problem.message) : []);
    at.control.focus();
  }

  #all() {
    return [this.type, this.name, this.url, this.key, this.most, this.slow];
  }

  #accepted() {
    for (const field of this.#all()) field.refuse("");
    this.alert.hidden = true;
  }

  async #test() {
    this.result.replaceChildren(h("p", { class: "mh-why" }, "Asking the provider for its models…"));
    const body = { base_url: this.url.control.value, provider_type: this.type.control.value, ...this.#keyGiven() };
    if (this.provider) body.provider_id = this.provider.id;
    try {
      const found = await api("POST", "/api/providers/test", body);
      this.#accepted();
      this.result.replaceChildren(...told(found));
    } catch (problem) {
      this.result.replaceChildren();
      this.#refused(problem);
    }
  }

  async #save() {
    const given = this.#given();
    if (this.provider && !Object.keys(given).length) {
      this.close();
      return;
    }
    const problem = "name" in given ? nameProblem(given.name) : "";
    if (problem) {
      this.#accepted();
      this.#recognise(); // an empty name is suggested anew
      this.name.refuse(problem);
      this.name.control.focus();
      return;
    }
    const [method, path] = this.provider ? ["PUT", `/api/providers/${this.provider.id}`] : ["POST", "/api/providers"];
    try {
      const row = await api(method, path, given);
      this.close();
      this.saved(row, !this.provider);
    } catch (problem) {
      this.#refused(problem);
    }
  }
}

/** How a test ended, in nodes. */
export function told(found) {
  const took = duration(found.duration_ms);
  if (!found.success) {
    const hint = hintOf(found.error);
    return [h("p", { class: "mh-outcome", dataset: { tone: "bad" } }, `Failed after ${took}: ${found.error}`), hint && h("p", { class: "mh-why" }, hint)].filter(Boolean);
  }
  const more = found.models > found.listed.length ? ", …" : "";
  return [
    h("p", { class: "mh-outcome", dataset: { tone: "good" } }, `It works: ${many(found.models, "model")} in ${took}.`),
    h("p", { class: "mh-why" }, found.listed.join(", ") + more),
  ];
}
