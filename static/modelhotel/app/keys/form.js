// The dialog in which a key is made or changed.
import { ApiError, api, busy } from "../api.js";
import { open } from "../dialog.js";
import { toast } from "../toast.js";
import { h } from "../ui.js";
import { LimitFields } from "./limits.js";

const ADDRESS = "/api/virtual-keys";
/** Providers above which the pills get a filter. */
const MANY = 12;
const EVERY = "Also providers that are added later.";
const CHOSEN = "Requests for other providers are refused; groups leave their members out.";
const NOBODY = "Choose at least one provider.";

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const sorted = (list) => (list === null ? null : [...list].sort());

/** Every provider, or the ones whose pill is pressed. */
class Access {
  constructor(providers, allowed) {
    this.chosen = allowed === null ? null : new Set(allowed);
    this.note = h("p", { class: "mh-why", id: "key-access-note" });
    this.every = h("button", { type: "button", class: "mh-pill" }, "Every provider");
    this.every.addEventListener("click", () => this.#choose(null));
    this.pills = providers.map((provider) => {
      const pill = h("button", { type: "button", class: "mh-pill" }, provider.name, !provider.enabled && h("span", { class: "mh-why" }, "off"));
      pill.addEventListener("click", () => this.#toggle(provider.id));
      return { provider, pill };
    });
    const filter = h("input", { type: "search", class: "mh-input", placeholder: "Filter providers", "aria-label": "Filter providers" });
    filter.addEventListener("input", () => {
      const wanted = filter.value.trim().toLowerCase();
      for (const { provider, pill } of this.pills) pill.hidden = !provider.name.toLowerCase().includes(wanted);
    });
    // Enter here would send the form.
    filter.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
    this.element = h(
      "fieldset",
      { class: "mh-keys-access", "aria-describedby": this.note.id },
      h("legend", {}, "Provider access"),
      providers.length > MANY && filter,
      h("div", { class: "mh-keys-pills" }, this.every, this.pills.map(({ pill }) => pill)),
      this.note,
    );
    this.#draw();
  }

  /** null or a list of ids, as the API wants it. */
  get value() {
    return this.chosen === null ? null : [...this.chosen];
  }

  #choose(chosen) {
    this.chosen = chosen;
    this.#draw();
  }

  #toggle(id) {
    const chosen = new Set(this.chosen || []);
    if (!chosen.delete(id)) chosen.add(id);
    this.#choose(chosen);
  }

  #draw() {
    this.every.setAttribute("aria-pressed", String(this.chosen === null));
    for (const { provider, pill } of this.pills) {
      pill.setAttribute("aria-pressed", String(this.chosen !== null && this.chosen.has(provider.id)));
    }
    this.note.textContent = this.chosen === null ? EVERY : this.chosen.size ? CHOSEN : NOBODY;
  }
}

export class KeyForm {
  /** *key*: the one to change; null makes a new one. *saved* gets the API's answer. */
  constructor(providers, key, defaults, saved) {
    this.key = this.fresh = key;
    this.saved = saved;
    this.name = h("input", { class: "mh-input", name: "name", maxlength: 100, autocomplete: "off", spellcheck: "false", autofocus: true, placeholder: "The client it is for, such as laptop", value: key ? key.name : "", "aria-describedby": "key-name-error" });
    this.nameError = h("p", { class: "mh-keys-error", id: "key-name-error", role: "alert" });
    this.access = new Access(providers, key ? key.allowed_providers : null);
    this.limits = new LimitFields(key, defaults);
    this.accessError = h("p", { class: "mh-keys-error", role: "alert" });
    this.strip = h("input", { type: "checkbox", class: "mh-switch", role: "switch", checked: Boolean(key && key.strip_reasoning), "aria-describedby": "key-strip-note" });
    this.news = h("p", { class: "mh-keys-news", role: "status", hidden: true });
    this.send = h("button", { type: "submit", class: "mh-btn" }, key ? "Save" : "Create key");
    this.name.addEventListener("input", () => this.#wrong("", ""));
    this.element = h("dialog", { class: "mh-keys-dialog" }, this.#form());
    this.element.addEventListener("close", () => this.closed && this.closed(), { once: true });
  }

  #form() {
    const form = h(
      "form",
      { method: "dialog", novalidate: true },
      h("h2", {}, this.key ? `Change the key “${this.key.name}”` : "New key"),
      this.news,
      h("label", { class: "mh-field" }, "Name", this.name),
      this.nameError,
      this.access.element,
      this.accessError,
      this.limits.element,
      h("label", { class: "mh-keys-switch" }, this.strip, h("span", {}, "Strip reasoning")),
      h("p", { class: "mh-why", id: "key-strip-note" }, "Answers come without the model's reasoning."),
      h("div", { class: "mh-dialog-actions" }, h("button", { type: "button", class: "mh-btn mh-btn-quiet", "data-close": true }, "Cancel"), this.send),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.send.disabled) busy(this.send, this.#save());
    });
    return form;
  }

  show() {
    this.close = open(this.element);
  }

  /** The key as somebody else left it, null when it is gone: said, and what was typed here stays. */
  changedElsewhere(fresh) {
    this.fresh = fresh ?? this.fresh;
    this.news.textContent = fresh
      ? "This key was changed elsewhere meanwhile. Saving changes only what you changed here."
      : "This key was deleted elsewhere meanwhile.";
    this.news.hidden = false;
    this.send.disabled = !fresh;
  }

  #wrong(name, access) {
    this.nameError.textContent = name;
    this.accessError.textContent = access;
    if (name) this.name.setAttribute("aria-invalid", "true");
    else this.name.removeAttribute("aria-invalid");
    this.limits.wrong("");
  }

  /** What to send: for a key that exists its name, its rates and, of the rest, what was changed here; null: nothing. */
  #body() {
    const limits = this.limits.body(this.fresh);
    if (!limits) return null;
    const body = { ...limits, name: this.name.value, allowed_providers: this.access.value, strip_reasoning: this.strip.checked };
    if (this.key) {
      if (same(sorted(body.allowed_providers), sorted(this.key.allowed_providers))) delete body.allowed_providers;
      if (body.strip_reasoning === this.key.strip_reasoning) delete body.strip_reasoning;
    }
    return body;
  }

  async #save() {
    this.#wrong("", "");
    const body = this.#body();
    if (!body) return;
    try {
      const answer = this.key ? await api("PUT", `${ADDRESS}/${this.key.id}`, body) : await api("POST", ADDRESS, body);
      this.close();
      this.saved(answer);
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      this.#refused(problem.message);
    }
  }

  #refused(text) {
    if (/^(invalid )?name\b/.test(text)) {
      this.#wrong(text, "");
      this.name.focus();
    } else if (text.startsWith("allowed_providers") || text.includes("provider access")) this.#wrong("", text);
    else if (!this.limits.refused(text)) toast(text, "error");
  }
}
