// The limits of a key in its dialog, and as the list shows them. An empty field is the setting's value.
import { exact } from "../format.js";
import { h } from "../ui.js";

export const PERIODS = ["day", "week", "month"];
const RATES = {
  rate_limit_rps: { label: "Requests per second", default: "rps", hint: "0 = unlimited" },
  rate_limit_burst: { label: "Burst", default: "burst", hint: "requests at once" },
  rate_limit_tpm: { label: "Tokens per minute", default: "tpm", hint: "prompt and completion" },
};
export const FIELDS = [...Object.keys(RATES), "budget_usd", "budget_period"];
const NOTE = "An empty rate is what the settings say; an empty budget is none. A key over a limit is answered with 429 until there is room again.";

/** What holds where a key says nothing: in words. */
export function inherited(defaults, field) {
  const value = defaults[RATES[field].default];
  if (field === "rate_limit_tpm" && !value) return "no cap";
  return field === "rate_limit_rps" && !value ? "unlimited" : exact(value);
}

export const dollars = (amount) => `$${amount.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;

/** The number that *text* spells, null for none. Throws an Error whose message can be shown. */
export function numberOf(text, label) {
  const plain = text.trim();
  if (!plain) return null;
  if (!/^[+-]?(\d+\.?\d*|\.\d+)$/.test(plain)) throw new Error(`${label}: “${plain}” is not a number`);
  return Number(plain);
}

/** The fields of one dialog. *key*: the one to change, null for a new one. */
export class LimitFields {
  constructor(key, defaults) {
    this.key = key;
    this.inputs = {};
    this.note = h("p", { class: "mh-why", id: "key-limits-note" }, NOTE);
    this.error = h("p", { class: "mh-keys-error", id: "key-limits-error", role: "alert" });
    const rates = Object.entries(RATES).map(([name, { label, hint }]) => this.#input(name, label, `${inherited(defaults, name)} (default)`, hint));
    this.period = h("select", { class: "mh-input", name: "budget_period", "aria-label": "Budget period" }, ...PERIODS.map((name) => h("option", { value: name }, `per ${name}`)));
    this.period.value = key?.budget_period || "month";
    this.element = h(
      "fieldset",
      { class: "mh-keys-limits", "aria-describedby": `${this.note.id} ${this.error.id}` },
      h("legend", {}, "Limits"),
      h("div", { class: "mh-keys-numbers" }, rates),
      h("div", { class: "mh-keys-budget" }, this.#input("budget_usd", "Budget in dollars", "no budget", ""), this.period),
      this.note,
      this.error,
    );
  }

  #input(name, label, placeholder, hint) {
    const value = this.key?.[name] ?? null;
    const input = h("input", { class: "mh-input", name, inputmode: "decimal", autocomplete: "off", placeholder, value: value === null ? "" : String(value) });
    input.addEventListener("input", () => this.wrong(""));
    this.inputs[name] = input;
    return h("label", { class: "mh-field" }, label, input, hint && h("span", { class: "mh-why" }, hint));
  }

  /** Say what is wrong; with *field* at that field. */
  wrong(text, field = "") {
    this.error.textContent = text;
    for (const [name, input] of Object.entries(this.inputs)) {
      if (text && name === field) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
    if (text) (this.inputs[field] ?? this.period).focus();
  }

  /** Whether *text*, a refusal of the API, is about one of these; then it is shown. */
  refused(text) {
    const field = FIELDS.find((name) => text.startsWith(name));
    if (field) this.wrong(text, field);
    return Boolean(field);
  }

  /**
   * What to send, null where something is no number, which is said then. *fresh*: the key as it is by now. The API
   * clears rates that are left out: one that was not changed here is sent as it is by now.
   */
  body(fresh) {
    const found = {};
    for (const [name, input] of Object.entries(this.inputs)) {
      const label = RATES[name]?.label ?? "Budget";
      try {
        found[name] = numberOf(input.value, label);
      } catch (problem) {
        this.wrong(problem.message, name);
        return null;
      }
    }
    found.budget_period = found.budget_usd === null ? null : this.period.value;
    if (!this.key) return found;
    for (const name of Object.keys(RATES)) if (found[name] === this.key[name]) found[name] = fresh[name];
    if (found.budget_usd === this.key.budget_usd && found.budget_period === this.key.budget_period) {
      delete found.budget_usd;
      delete found.budget_period;
    }
    return found;
  }
}

/** The cells of a row: three rates and the budget. */
export function cells(key, defaults) {
  const rate = (name) => {
    const own = key[name];
    if (own === null) return h("td", { class: "mh-num", title: "As the settings say" }, h("span", { class: "mh-why" }, inherited(defaults, name)));
    return h("td", { class: "mh-num" }, name === "rate_limit_rps" && own === 0 ? "unlimited" : exact(own));
  };
  return [...Object.keys(RATES).map(rate), h("td", { class: "mh-keys-spent" }, budget(key))];
}

function budget({ budget_usd: amount, budget_period: period, budget_spent_usd: spent }) {
  if (amount === null) return h("span", { class: "mh-why" }, "none");
  const text = `${dollars(spent ?? 0)} of ${dollars(amount)}`;
  const over = (spent ?? 0) >= amount;
  const said = over ? h("span", { class: "mh-chip", dataset: { tone: "bad" }, title: "Spent: requests are refused until the period ends" }, text) : text;
  return h("span", {}, said, " ", h("span", { class: "mh-why" }, `per ${period}`));
}
