// The address of a provider in its form: preset and locked, put together from its blanks, or typed.
import { h } from "../ui.js";
import { Field, text } from "./field.js";

const EXAMPLE = "https://api.openai.com/v1";

/** *form* with its "<name>" filled in from *values*; those that are missing stay. */
export function filled(form, values) {
  return form.replace(/<(\w+)>/g, (blank, name) => values[name] || blank);
}

/** The blanks of *form* as *address* has them filled in; null when it is an address of another form. */
export function blanksOf(form, address) {
  const names = [];
  const pattern = form.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/<(\w+)>/g, (_, name) => {
    names.push(name);
    return "([\\w-]+)";
  });
  const found = names.length ? new RegExp(`^${pattern}$`).exec(address) : null;
  return found && Object.fromEntries(names.map((name, at) => [name, found[at + 1]]));
}

/** Whether two addresses lead to the same place, as far as their text says. *mount*: "/v1" at the end counts for nothing. */
export function same(one, other, mount = false) {
  const form = (address) => {
    try {
      const { origin, pathname } = new URL(address.trim());
      const path = pathname.replace(/\/+$/, "");
      return origin + (mount ? path.replace(/\/v1$/i, "").replace(/\/+$/, "") : path);
    } catch {
      return "";
    }
  };
  const wanted = form(one);
  return wanted !== "" && wanted === form(other);
}

export class Address {
  /** *stored*: the address a provider has, "" for a new one. *changed*() follows every change of it. */
  constructor(stored, changed) {
    this.changed = changed;
    this.presets = new Set();
    this.unlock = h("button", { type: "button", class: "mh-btn mh-btn-quiet mh-small", hidden: true }, "Other address");
    const control = text({ inputmode: "url", placeholder: EXAMPLE, value: stored });
    this.field = new Field("base_url", "Base address", control, this.unlock);
    this.blanks = h("div", { class: "mh-pair", hidden: true });
    this.fields = [];
    this.unlock.addEventListener("click", () => this.#unlocked());
    control.addEventListener("input", () => changed());
  }

  get value() {
    return this.field.value;
  }

  /** Takes what *kind* brings along, null for no kind. *first*: the dialog opens, so a stored address stays. */
  choose(kind, first) {
    const input = this.field.control;
    const given = kind && (kind.address || filled(kind.form, {}));
    if (!first) {
      if (given) input.value = given;
      else if (this.#preset(input.value)) input.value = "";
    }
    this.#ask(kind);
    this.#lock(Boolean(given) && (this.fields.length > 0 || input.value === kind.address));
    input.placeholder = (kind && (kind.hint || kind.address)) || EXAMPLE;
    this.#note(kind, input.value);
  }

  /** Where the keyboard goes first: to what is still to be filled in; null when nothing is. */
  get open() {
    const blank = this.fields.find(({ field }) => !field.value);
    if (blank) return blank.field.control;
    return this.field.control.readOnly ? null : this.field.control;
  }

  /** Says which blank is not filled in; true when one is missing. */
  incomplete() {
    for (const { title, field } of this.fields) {
      if (field.value) continue;
      field.refuse(`${title} is missing.`);
      field.control.focus();
      return true;
    }
    return false;
  }

  #note(kind, value) {
    if (kind && kind.address) this.presets.add(kind.address);
    if (this.fields.length) this.presets.add(value);
  }

  #preset(value) {
    return this.presets.has(value) || value.includes("<");
  }

  #ask(kind) {
    const input = this.field.control;
    const found = kind && kind.form ? blanksOf(kind.form, input.value) : null;
    const asked = kind && kind.form && (found || input.value === filled(kind.form, {}));
    this.fields = (asked ? kind.blanks : []).map(({ name, title, hint, value }) => {
      const field = new Field(name, title, text({ value: (found && found[name]) || value }));
      field.hint.textContent = hint;
      field.control.addEventListener("input", () => this.#fill(kind));
      return { name, title, field };
    });
    this.blanks.replaceChildren(...this.fields.map(({ field }) => field.element));
    this.blanks.hidden = !this.fields.length;
    if (asked) this.#fill(kind);
  }

  #fill(kind) {
    const values = Object.fromEntries(this.fields.map(({ name, field }) => [name, field.value]));
    this.field.control.value = filled(kind.form, values);
    this.#note(kind, this.field.control.value);
    this.changed();
  }

  #lock(locked) {
    this.field.control.readOnly = locked;
    this.unlock.hidden = !locked;
  }

  #unlocked() {
    this.fields = [];
    this.blanks.replaceChildren();
    this.blanks.hidden = true;
    this.#lock(false);
    this.field.control.focus();
    this.field.control.select();
  }
}
