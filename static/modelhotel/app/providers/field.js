// The parts a provider form is made of.
import { h } from "../ui.js";

let serial = 0;

/** A labelled control with room for a hint and for what the server says about it. *name*: the API's name for it. */
export class Field {
  constructor(name, title, control, ...beside) {
    const id = `provider-${name}-${(serial += 1)}`;
    control.id = id;
    control.name = name;
    this.name = name;
    this.control = control;
    this.hint = h("div", { class: "mh-hint", id: `${id}-hint` });
    this.error = h("div", { class: "mh-error", role: "alert", id: `${id}-error` });
    this.label = h("label", { for: id }, title);
    control.setAttribute("aria-describedby", `${id}-error ${id}-hint`);
    this.element = h("div", { class: "mh-field", dataset: { field: name } }, this.label, h("div", { class: "mh-beside" }, control, beside), this.error, this.hint);
    control.addEventListener("input", () => this.refuse(""));
  }

  get value() {
    return this.control.value.trim();
  }

  /** Says *text* beside the control; *more*: nodes that help. "" takes it back. */
  refuse(text, ...more) {
    this.control.removeAttribute("aria-invalid");
    if (text) this.control.setAttribute("aria-invalid", "true");
    this.error.replaceChildren(text, ...more);
  }
}

/** A switch with its label behind it. */
export function toggle(title, name, on) {
  const input = h("input", { type: "checkbox", role: "switch", class: "mh-switch", name });
  input.checked = on;
  return { input, element: h("label", { class: "mh-line" }, input, title) };
}

/** A line of text to type into, without the help of the browser. */
export const text = (props) => h("input", { class: "mh-input", type: "text", autocomplete: "off", spellcheck: "false", ...props });
