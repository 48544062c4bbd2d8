// The form of one model: only what is changed is sent.
import { ApiError, busy } from "../api.js";
import { h } from "../ui.js";
import { proxyId, searches } from "./facts.js";

const FIELDS = [
  ["display_name", "Display name", "text", "invalid display name", "Empty takes the provider's own name again."],
  ["context_length", "Context", "number", "invalid context length", "256 to 2,000,000 tokens. A scan that reports another value overwrites it."],
  ["max_output_tokens", "Max output", "number", "invalid max output_tokens", "1 to 128,000 tokens."],
  ["input_price_per_million", "Input price", "number", "invalid input price", "Dollars per million tokens, 0 to 1000. Editing a price pins all of them."],
  ["input_price_per_million_cache_hit", "Cached input price", "number", "invalid cached input price", ""],
  ["output_price_per_million", "Output price", "number", "invalid output price", ""],
  ["search_price_per_thousand", "Search price", "number", "invalid search price", "Dollars per thousand search units, of a reranker that bills by them."],
];
const WHOLE = new Set(["context_length", "max_output_tokens"]);

function fieldOf(row, [name, title, type, refusal, hint]) {
  const shown = row[name] ?? "";
  const input = h("input", { class: "mh-input", name, type: "text", inputmode: type === "number" ? "decimal" : null, value: String(shown), autocomplete: "off", id: `model-${name}`, "aria-describedby": `model-${name}-error model-${name}-hint` });
  const error = h("div", { class: "mh-error", role: "alert", id: `model-${name}-error` });
  const element = h("div", { class: "mh-field" }, h("label", { for: `model-${name}` }, title), input, error, h("div", { class: "mh-hint", id: `model-${name}-hint` }, hint));
  const refuse = (text) => {
    error.textContent = text;
    input.toggleAttribute("aria-invalid", false);
    if (text) input.setAttribute("aria-invalid", "true");
  };
  return { name, type, refusal, input, element, refuse, before: String(shown) };
}

/** The value to send; throws the text that refuses it. */
function valueOf({ name, type, input, refusal }) {
  const text = input.value.trim();
  if (type === "text") return text;
  if (!text) throw new Error("A value can be changed here, not removed.");
  const value = Number(text.replaceAll(",", ""));
  if (!Number.isFinite(value) || (WHOLE.has(name) && !Number.isInteger(value))) throw new Error(refusal);
  return value;
}

/** *save*(given) stores what changed and may throw ApiError. Gives the form and what puts the keyboard into it. */
export function editor(row, { save, cancel }) {
  const fields = FIELDS.filter(([name]) => name !== "search_price_per_thousand" || searches(row)).map((one) => fieldOf(row, one));
  const alert = h("p", { class: "mh-refused", role: "alert", hidden: true });
  const go = h("button", { type: "submit", class: "mh-btn" }, "Save");
  const back = h("button", { type: "button", class: "mh-btn mh-btn-quiet", on: { click: cancel } }, "Cancel");
  const form = h("form", { class: "mh-provider-form", novalidate: true }, h("h2", {}, `Edit ${proxyId(row)}`), h("div", { class: "mh-model-fields" }, fields.map((field) => field.element)), alert, h("div", { class: "mh-dialog-actions" }, back, go));

  const given = () => {
    const found = {};
    let good = true;
    for (const field of fields) {
      field.refuse("");
      if (field.input.value.trim() === field.before) continue;
      try {
        found[field.name] = valueOf(field);
      } catch (problem) {
        field.refuse(problem.message);
        if (good) field.input.focus();
        good = false;
      }
    }
    return good ? found : null;
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const wanted = given();
    if (!wanted) return;
    if (!Object.keys(wanted).length) {
      cancel();
      return;
    }
    try {
      await busy(go, save(wanted));
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      const at = fields.find((field) => field.refusal === problem.message);
      if (at) {
        at.refuse(problem.message);
        at.input.focus();
      } else {
        alert.hidden = false;
        alert.textContent = problem.message;
      }
    }
  });
  return { element: form, focus: () => fields[0].input.focus() };
}
