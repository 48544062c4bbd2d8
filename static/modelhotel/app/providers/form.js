// The dialog in which a provider is added or changed; it shows what the chosen type needs.
import { api, ApiError, busy } from "../api.js";
import { open } from "../dialog.js";
import { duration } from "../format.js";
import { h } from "../ui.js";
import { Address, same } from "./address.js";
import { Field, text, toggle } from "./field.js";
import { fieldOf, freeName, hintOf, hostOf, isPrivate, keyProblem, nameOf, nameProblem, toSet, typeOf } from "./fields.js";
import { Limits } from "./limits.js";
import { many } from "./scans.js";

const BY_ADDRESS = "";

/** The environment that would allow a refused address. */
function settings(lines) {
  const wanted = lines.join("\n");
  return h(
    "div",
    { class: "mh-to-set" },
    h("span", {}, "To allow it, start the gateway with"),
    h("pre", { dataset: { copyText: wanted }, tabindex: "0", title: "Copy" }, wanted),
    h("span", {}, "ALLOWED_PROVIDER_HOSTS is a list: with it set, hosts that are not built in have to be named too."),
  );
}

export class ProviderForm {
  /** *data*: kinds, rules of addresses, today; *taken*: the other providers; *saved*(row, fresh) is called with what was stored. */
  constructor({ data, taken, provider = null, saved }) {
    this.kinds = new Map(data.kinds.map((kind) => [kind.type, kind]));
    this.rules = data.rules;
    this.taken = taken;
    this.provider = provider;
    this.saved = saved;
    this.suggested = "";
    this.limits = new Limits(provider, data.today);
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
    this.name = new Field("name", "Name", text({ maxlength: "100", value: stored ? stored.name : "" }));
    this.name.hint.textContent = "Clients ask for its models as name/model, blanks as hyphens.";
    this.address = new Address(stored ? stored.base_url : "", () => this.#recognise());
    this.url = this.address.field;
    this.show = h("button", { type: "button", class: "mh-btn mh-btn-quiet mh-small", "aria-pressed": "false" }, "Show");
    const has = stored && stored.masked_key !== "N/A";
    this.key = new Field("api_key", "API key", text({ type: "password", autocomplete: "new-password", placeholder: has ? `stored: ${stored.masked_key}` : "" }), this.show);
    const lost = stored && keyProblem(stored, this.kinds.get(stored.provider_type), true);
    this.key.hint.textContent = lost ? lost[1] : has ? "Blank keeps the stored key." : "Stored encrypted and never shown again.";
    this.drop = toggle("Remove the stored key", "remove_key", false);
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
      this.address.blanks,
      this.url.element,
      this.key.element,
      stored && this.drop.element,
      this.name.element,
      this.limits.element,
      this.result,
      this.alert,
      h("div", { class: "mh-dialog-actions" }, this.tester, h("span", { class: "mh-push" }), h("button", { type: "button", class: "mh-btn mh-btn-quiet", "data-close": true }, "Cancel"), this.go),
    );
    this.dialog = h("dialog", { class: "mh-provider-dialog" }, form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      busy(this.go, this.#save());
    });
    form.addEventListener("input", () => this.result.replaceChildren());
    this.tester.addEventListener("click", () => busy(this.tester, this.#test()));
    this.type.control.addEventListener("change", () => this.#typeChosen(false));
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

  get #chosen() {
    return this.kinds.get(this.type.control.value) || null;
  }

  get #kind() {
    return this.type.control.value === BY_ADDRESS ? this.kinds.get(typeOf(this.address.value, this.rules)) || null : this.#chosen;
  }

  #typeChosen(first) {
    this.address.choose(this.#chosen, first);
    this.#recognise();
    if (!first && this.#chosen) (this.address.open || this.key.control).focus();
  }

  #reveal() {
    const shown = this.key.control.type === "text";
    this.key.control.type = shown ? "password" : "text";
    this.show.textContent = shown ? "Show" : "Hide";
    this.show.setAttribute("aria-pressed", String(!shown));
  }

  /** What follows from type and address: hints, whether a key is needed, what can be limited, a name to start with. */
  #recognise() {
    const kind = this.#kind;
    const host = hostOf(this.address.value);
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
    this.limits.show(kind);
    this.#neighbour(kind);
    this.#suggest(kind, host);
  }

  /** A second provider at one address: fine for another account of a vendor, refused for a server of one's own. */
  #neighbour(kind) {
    const own = Boolean(kind && kind.self_hosted);
    const other = this.taken.find((one) => same(one.base_url, this.address.value, own) && (!own || this.kinds.get(one.provider_type)?.self_hosted));
    this.url.hint.classList.toggle("mh-warning", Boolean(other));
    if (!other) this.url.hint.textContent = "";
    else if (own) this.url.hint.textContent = `${other.name} is this server already: it is added once only.`;
    else this.url.hint.textContent = `${other.name} has the same address; that is fine with another key.`;
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

  #given() {
    const wanted = {
      name: this.name.control.value,
      provider_type: this.type.control.value,
      base_url: this.url.control.value,
      ...this.limits.given(),
    };
    if (!this.provider) return { ...wanted, ...this.#keyGiven() };
    const changed = Object.entries(wanted).filter(([field, value]) => value !== this.provider[field]);
    return { ...Object.fromEntries(changed), ...this.#keyGiven() };
  }

  #refused(problem) {
    if (!(problem instanceof ApiError)) throw problem;
    this.#accepted();
    const said = problem.body && typeof problem.body === "object" ? problem.body : {};
    const at = this.#all().find((field) => field.name === fieldOf(problem.message, said.code));
    this.alert.hidden = Boolean(at);
    this.alert.textContent = at ? "" : problem.message;
    if (!at) return;
    at.refuse(problem.message, ...(at === this.url ? this.#wayOut(problem.message, said) : []));
    at.control.focus();
  }

  /** What helps with a refused address: the environment that allows it, or the type that answered there. */
  #wayOut(message, { code, detected, detected_version: version }) {
    const lines = toSet(this.url.control.value, message);
    if (lines.length) return [settings(lines)];
    if (code === "provider_unreachable") return [h("p", { class: "mh-why" }, "Is the server running, and can the gateway's machine reach it?")];
    const kind = this.kinds.get(code === "provider_type_mismatch" ? detected : code === "provider_type_unconfirmed" ? "custom" : "");
    if (!kind) return [];
    const take = () => {
      this.type.control.value = kind.type;
      this.#accepted();
      this.#typeChosen(false);
    };
    const why = detected ? [`${kind.label}${version ? ` ${version}` : ""} answered. `] : ["A server that only speaks OpenAI's API is of the type Custom. "];
    return [h("p", { class: "mh-why" }, why, h("button", { type: "button", class: "mh-btn mh-btn-quiet mh-small", on: { click: take } }, `Use ${kind.label}`))];
  }

  #all() {
    return [this.type, this.name, this.url, this.key, ...this.limits.fields];
  }

  #accepted() {
    for (const field of this.#all()) field.refuse("");
    this.alert.hidden = true;
  }

  async #test() {
    if (this.address.incomplete()) return;
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
    if (this.address.incomplete()) return;
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
