// The table of models: its header, its rows.
import { age, exact, instant, number } from "../format.js";
import { h } from "../ui.js";
import { abilities, proxyId, status, title } from "./facts.js";

/** [sort word of the API or "", heading, numeric]. */
const COLUMNS = [
  ["name", "Model", false],
  ["", "Capabilities", false],
  ["provider", "Provider", false],
  ["discovered", "Discovered", false],
  ["context", "Ctx", true],
  ["output", "Max out", true],
  ["status", "Status", false],
];
export const SORTS = COLUMNS.map(([word]) => word).filter(Boolean);
/** What is wanted first when a column is chosen. */
const DOWN_FIRST = new Set(["discovered", "context", "output"]);

/** The header row for *sort* and *dir*; choose(sort, dir) is called on a click. */
export function header(sort, dir, choose) {
  return COLUMNS.map(([word, text, numeric]) => {
    if (!word) return h("th", { scope: "col" }, text);
    const active = word === sort;
    const next = active ? (dir === "desc" ? "asc" : "desc") : DOWN_FIRST.has(word) ? "desc" : "asc";
    return h(
      "th",
      { scope: "col", class: numeric ? "mh-num" : null, "aria-sort": active ? (dir === "desc" ? "descending" : "ascending") : "none" },
      h("button", { type: "button", dataset: { sort: word }, on: { click: () => choose(word, next) } }, text),
    );
  });
}

function cell(value) {
  return h("td", { class: "mh-num", title: value === null ? null : exact(value) }, number(value));
}

/** One row; *show*(row) opens the model. */
export function line(row, show) {
  const [tone, word, why] = status(row);
  return h(
    "tr",
    { dataset: { id: row.id, state: word.toLowerCase() } },
    h(
      "td",
      { class: "mh-model-name" },
      h("button", { type: "button", class: "mh-model-open", on: { click: () => show(row) } }, title(row)),
      h("button", { type: "button", class: "mh-copyable mh-model-id", dataset: { copyText: proxyId(row) }, title: "Copy what clients ask for" }, proxyId(row)),
    ),
    h("td", {}, h("span", { class: "mh-chips" }, abilities(row).map((name) => h("span", { class: "mh-chip", dataset: { tone: "muted" } }, name)))),
    h("td", { class: "mh-model-provider", title: row.provider_name }, row.provider_name),
    h("td", {}, h("time", { datetime: row.created_at, title: instant(row.created_at), dataset: { age: row.created_at } }, age(row.created_at))),
    cell(row.context_length),
    cell(row.max_output_tokens),
    h("td", {}, h("span", { class: "mh-chip", dataset: { tone }, title: why }, word)),
  );
}
