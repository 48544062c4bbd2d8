// Shares, bars and the token bar: lists whose text says everything, with a picture beside it.
import { duration, exact, money, number, percent } from "../format.js";
import { h } from "../ui.js";
import { mix, squares } from "./rules.js";

const SHOWN = 10;
const DELETED = "Deleted";
const BUILT_IN = {
  chat: "Requests of the dashboard's own chat; no virtual key.",
  arena: "Requests of the dashboard's arena; no virtual key.",
  completions: "Requests of the dashboard's completions; no virtual key.",
  internal: "Requests the gateway makes by itself; no virtual key.",
  admin: "Requests made with the admin token; no virtual key.",
};

export const write = (value, metric) => (metric === "cost" ? money(value) : number(value));
const full = (value, metric) => (metric === "cost" ? `$${exact(value)}` : exact(value));

function nothing(body) {
  body.replaceChildren(h("p", { class: "mh-ov-none" }, "No requests in this period"));
}

function bar(part, tone) {
  const line = h("span", { class: "mh-ov-bar", dataset: { tone } });
  line.style.width = `${part * 100}%`;
  return line;
}

/** *values*: name -> value, the largest first. *name*(text) -> cell content. */
function ranked(body, values, metric, label, name) {
  const all = Object.entries(values);
  if (!all.length) return nothing(body);
  const most = all[0][1];
  const rows = all.slice(0, SHOWN).map(([text, value]) =>
    h(
      "li",
      { class: text === DELETED ? "mh-ov-gone" : null },
      h("span", { class: "mh-ov-line" }, name(text), h("span", { class: "mh-ov-value", title: full(value, metric) }, write(value, metric))),
      h("span", { class: "mh-ov-track", "aria-hidden": "true" }, bar(value / most, "1")),
    ),
  );
  const more = all.length - SHOWN;
  body.replaceChildren(
    h("ol", { class: "mh-ov-bars", "aria-label": label }, rows),
    more > 0 ? h("p", { class: "mh-ov-words" }, `and ${more} more`) : "",
  );
}

export function models(body, stats, panel) {
  ranked(body, stats.by_model, panel.metric, panel.title, (text) =>
    h("span", { class: "mh-ov-name", title: text, tabindex: "0", "data-copy": "" }, text),
  );
}

export function keys(body, stats, panel) {
  ranked(body, stats.by_virtual_key, panel.metric, panel.title, (text) => {
    const why = BUILT_IN[text] || (text === DELETED ? "Requests of keys that no longer exist." : text);
    return h("span", { class: "mh-ov-name", title: why }, text);
  });
}

export function waffle(body, items, panel) {
  if (!items.length) return nothing(body);
  const cells = squares(items.map((item) => item.share)).flatMap((count, at) =>
    Array.from({ length: count }, () => h("span", { dataset: { tone: at + 1 }, title: items[at].name })),
  );
  const value = (item) => ({ requests: item.count, tokens: item.tokens, cost: item.cost_usd })[panel.metric];
  const rows = items.map((item, at) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("span", { class: "mh-ov-dot", dataset: { tone: at + 1 }, "aria-hidden": "true" }), h("span", { class: "mh-ov-name", title: item.name }, item.name)),
      h("td", { class: "mh-num" }, `${item.share.toFixed(1)} %`),
      h("td", { class: "mh-num", title: full(value(item), panel.metric) }, write(value(item), panel.metric)),
    ),
  );
  body.replaceChildren(
    h(
      "div",
      { class: "mh-ov-shares" },
      h("div", { class: "mh-ov-waffle", "aria-hidden": "true" }, cells),
      h("table", { class: "mh-table", "aria-label": panel.title }, h("tbody", {}, rows)),
    ),
  );
}

export function tokenMix(body, stats) {
  const parts = mix(stats);
  const total = parts.reduce((sum, part) => sum + part.value, 0);
  if (!total) return nothing(body);
  const pieces = parts.map((part, at) => bar(part.value / total, ["3", "2", "1"][at]));
  const lines = parts.map((part, at) =>
    h(
      "li",
      { class: "mh-ov-line" },
      h("span", { class: "mh-ov-dot", dataset: { tone: ["3", "2", "1"][at] }, "aria-hidden": "true" }),
      h("span", { class: "mh-ov-name" }, part.name),
      h("span", { class: "mh-ov-muted" }, percent(part.value / total)),
      h("span", { class: "mh-ov-value", title: exact(part.value) }, number(part.value)),
    ),
  );
  body.replaceChildren(
    h("div", { class: "mh-ov-mix", "aria-hidden": "true" }, pieces),
    h("ul", { class: "mh-ov-parts", "aria-label": "Token mix" }, lines),
  );
}

/** Where the time goes at each provider. *sort*: {by, changed}; *by* provider_ms or overhead_ms. */
export function latency(body, stats, sort) {
  const rows = [...stats.by_provider_latency].sort((a, b) => b[sort.by] - a[sort.by] || (a.provider_name < b.provider_name ? -1 : 1));
  if (!rows.length) {
    body.replaceChildren(h("p", { class: "mh-ov-none" }, "No provider with three answers in this period"));
    return;
  }
  const most = Math.max(...rows.map((row) => row.total_ms)) || 1;
  const head = (key, text) => {
    const button = h("button", { type: "button" }, text);
    button.addEventListener("click", () => sort.changed(key));
    return h("th", { scope: "col", class: "mh-num", "aria-sort": sort.by === key ? "descending" : "none" }, button);
  };
  const line = (row) =>
    h(
      "tr",
      { title: `${row.provider_name}: ${duration(row.total_ms)} on average, of ${exact(row.request_count)} answers` },
      h(
        "th",
        { scope: "row" },
        h("span", { class: "mh-ov-name" }, row.provider_name),
        h("span", { class: "mh-ov-track", "aria-hidden": "true" }, bar(row.provider_ms / most, "2"), bar(row.overhead_ms / most, "1")),
      ),
      h("td", { class: "mh-num" }, duration(row.provider_ms)),
      h("td", { class: "mh-num" }, duration(row.overhead_ms)),
      h("td", { class: "mh-num mh-ov-muted" }, number(row.request_count)),
    );
  const focused = body.contains(document.activeElement) ? document.activeElement.textContent : "";
  body.replaceChildren(
    h(
      "table",
      { class: "mh-table mh-ov-latency", "aria-label": "Provider latency" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Provider"), head("provider_ms", "Provider time"), head("overhead_ms", "Gateway"), h("th", { scope: "col", class: "mh-num" }, "Answers"))),
      h("tbody", {}, rows.map(line)),
    ),
  );
  // Drawn anew, the keyboard stays where it was.
  for (const button of focused ? body.querySelectorAll("button") : []) if (button.textContent === focused) button.focus();
}
