// Five gauges with the curve behind them, and six cards.
import { duration, exact, money, number, percent } from "../format.js";
import { open } from "../dialog.js";
import { h } from "../ui.js";
import { Lines } from "./lines.js";
import { known, RANGES, requestsOf, view } from "./rules.js";

const SVG = "http://www.w3.org/2000/svg";
const MS = (value) => duration(value);
const HIGH = 0.05; // of all requests failed: no longer normal

/** figure(stats, range) -> number or null; *curve*(point) for the history. */
export const GAUGES = [
  { name: "Requests", tone: "1", figure: requestsOf, write: number, title: exact, curve: (p) => p.count },
  {
    name: "Average time to first token",
    short: "Time to first token",
    tone: "2",
    figure: (stats) => known(stats.avg_ttft_ms),
    write: MS,
    curve: (p) => p.avg_ttft_ms,
    sum: false,
  },
  {
    name: "Average gateway overhead",
    short: "Gateway overhead",
    tone: "4",
    figure: (stats) => known(stats.avg_overhead_ms),
    write: MS,
    curve: (p) => p.overhead_ms,
    sum: false,
  },
  { name: "Rate-limit hits", tone: "5", figure: (stats) => stats.rate_limit_hits, write: number, title: exact, curve: (p) => p.rate_limit_hits },
  {
    name: "Error rate",
    tone: "bad",
    figure: (stats, range) => (requestsOf(stats, range) ? stats.error_rate : null),
    write: percent,
    curve: (p) => (p.count ? p.errors / p.count : 0),
    sum: false,
  },
];

function spark(points, tone) {
  const most = Math.max(...points, 0) || 1;
  const step = 100 / Math.max(1, points.length - 1);
  const at = points.map((value, index) => `${(index * step).toFixed(2)},${(28 - (value / most) * 26).toFixed(2)}`);
  const box = document.createElementNS(SVG, "svg");
  box.setAttribute("viewBox", "0 0 100 30");
  box.setAttribute("preserveAspectRatio", "none");
  box.setAttribute("class", "mh-ov-spark");
  box.setAttribute("aria-hidden", "true");
  box.dataset.tone = tone;
  for (const [tag, attribute, value] of [
    ["polygon", "points", `0,30 ${at.join(" ")} 100,30`],
    ["polyline", "points", at.join(" ")],
  ]) {
    const shape = document.createElementNS(SVG, tag);
    shape.setAttribute(attribute, value);
    box.append(shape);
  }
  return box;
}

/** Fills the five buttons, which stay the same elements: a press or a focus is not lost to a refresh. */
export function gauges(body, { stats, points }, panel, openHistory) {
  const { shown } = view(points, RANGES[panel.range].shown);
  if (body.querySelectorAll("button.mh-ov-gauge").length !== GAUGES.length) {
    body.replaceChildren(
      ...GAUGES.map((gauge) => {
        const button = h("button", { type: "button", class: "mh-card mh-ov-gauge", "aria-haspopup": "dialog" });
        button.addEventListener("click", () => openHistory(gauge, panel.range));
        return button;
      }),
    );
  }
  GAUGES.forEach((gauge, at) => {
    const value = gauge.figure(stats, panel.range);
    const bad = gauge.tone === "bad" && value !== null && value >= HIGH;
    const figure = h("strong", { class: "mh-ov-figure", title: gauge.title ? gauge.title(value) : null }, gauge.write(value));
    if (bad) figure.dataset.state = "bad";
    body.children[at].replaceChildren(
      h("span", { class: "mh-ov-label", title: gauge.name }, gauge.short || gauge.name),
      figure,
      spark(shown.map(gauge.curve), gauge.tone),
      h("span", { class: "mh-visually-hidden" }, `, ${RANGES[panel.range].words}. Opens its history`),
    );
  });
}

/** Six cards: what there is, and what it did. *house*: {providers: [on, all], models: [on, all]} or parts of it. */
export function cards(body, stats, panel, house, links) {
  const of = (pair) => (pair ? `${number(pair[0])} / ${number(pair[1])}` : null);
  const total = stats && stats.total_tokens_prompt + stats.total_tokens_completion;
  const count = stats && requestsOf(stats, panel.range);
  const cost = stats && stats.total_cost_usd !== null ? `${money(stats.total_cost_usd)} in this period` : "";
  const list = [
    house.providers && { name: "Providers", text: of(house.providers), note: "enabled / all", link: links.providers },
    house.models && { name: "Models", text: of(house.models), note: "enabled / all", link: links.models },
    stats && { name: "Requests", text: number(count), title: exact(count), note: RANGES[panel.range].words, link: links.requests },
    stats && { name: "Error rate", text: percent(count ? stats.error_rate : null), note: "of finished requests" },
    stats && { name: "Average duration", text: MS(known(stats.avg_latency_ms)), note: "at the provider" },
    stats && { name: "Total tokens", text: number(total), title: exact(total), note: cost || "prompt + completion" },
  ].filter(Boolean);
  body.replaceChildren(
    ...list.map((one) => {
      const tag = one.link ? "a" : "div";
      return h(
        tag,
        { class: "mh-card mh-ov-card", href: one.link || null },
        h("span", { class: "mh-ov-label" }, one.name),
        h("strong", { class: "mh-ov-figure", title: one.title || null }, one.text),
        h("span", { class: "mh-ov-muted" }, one.note),
      );
    }),
  );
}

/** The history of one gauge in a dialog. *read*(range) -> points. Returns {update, theme, done}. */
export function history(gauge, range, read) {
  let wanted = range;
  const body = h("div", { class: "mh-ov-history" });
  const problem = h("p", { class: "mh-ov-problem", role: "alert", hidden: true });
  const pills = Object.entries(RANGES).map(([value, { label }]) => {
    const pill = h("button", { type: "button", class: "mh-pill", "aria-pressed": String(value === wanted) }, label);
    pill.addEventListener("click", () => {
      wanted = value;
      for (const other of pills) other.setAttribute("aria-pressed", String(other === pill));
      update();
    });
    return pill;
  });
  const close = h("button", { type: "button", class: "mh-btn mh-btn-quiet", "data-close": true }, "Close");
  const dialog = h(
    "dialog",
    { "data-size": "wide" },
    h("div", { class: "mh-ov-head" }, h("h2", {}, gauge.name), h("div", { class: "mh-ov-pills", role: "group", "aria-label": "Range" }, pills)),
    problem,
    body,
    h("div", { class: "mh-dialog-actions" }, close),
  );
  open(dialog);
  const series = [{ key: "value", name: gauge.name.toLowerCase(), title: gauge.name, write: gauge.write, tone: gauge.tone, sum: gauge.sum }];
  const lines = new Lines(body, series, { label: gauge.name, whole: true });
  async function update() {
    const asked = wanted;
    try {
      const points = await read(asked);
      if (asked !== wanted || !dialog.open) return;
      problem.hidden = true;
      lines.set(points.map((point) => ({ bucket: point.bucket, value: gauge.curve(point) })), asked);
    } catch (failure) {
      if (failure.name !== "ApiError") throw failure;
      problem.textContent = failure.message;
      problem.hidden = false;
    }
  }
  const done = new Promise((resolve) => dialog.addEventListener("close", () => {
    lines.destroy();
    resolve();
  }, { once: true }));
  update();
  return { update, theme: () => lines.theme(), done };
}
