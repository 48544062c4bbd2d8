// Curves over time, on the Chart.js that unfold ships: a view that is moved back in time, its words and its table.
import { h } from "../ui.js";
import { dated, long, moved, RANGES, short, span, summary, view } from "./rules.js";

const NOTHING = "No requests in this period";
const STEP = 0.5; // of a view, for one press

/** Colours of the theme as the canvas takes them: variables may hold expressions that it does not know. */
function colours(host, names) {
  const probe = h("span", { hidden: true });
  host.append(probe);
  const found = names.map((name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return found;
}

export class Lines {
  /** *series*: [{key, name, write, tone, dash?, sum?}]; *whole*: everything at once instead of a view. */
  constructor(body, series, { label, whole = false }) {
    this.series = series;
    this.whole = whole;
    this.points = [];
    this.range = "24h";
    this.until = null;
    this.words = h("p", { class: "mh-ov-words", role: "status" });
    this.canvas = h("canvas", { role: "img", "aria-label": label });
    this.box = h("div", { class: "mh-ov-canvas" }, this.canvas);
    if (!whole) {
      const name = `${label}: the arrow keys move in time`;
      for (const [key, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", name]]) this.box.setAttribute(key, value);
    }
    this.note = h("p", { class: "mh-ov-over", hidden: true }, NOTHING);
    this.box.append(this.note);
    this.table = h("div", { class: "mh-scroll mh-ov-table", tabindex: "0", role: "region", "aria-label": `${label}, table` });
    this.table.hidden = true;
    this.earlier = this.#step("Earlier", "chevron_left", -1);
    this.later = this.#step("Later", "chevron_right", 1);
    this.newest = h("button", { type: "button", class: "mh-pill" }, "Now");
    this.newest.addEventListener("click", () => this.#to(null));
    this.asTable = h("button", { type: "button", class: "mh-pill", "aria-pressed": "false" }, "Table");
    this.asTable.addEventListener("click", () => this.#turn());
    this.span = h("span", { class: "mh-ov-span" });
    const keys = series.map((one) => h("li", { dataset: { tone: one.tone, dash: Boolean(one.dash) } }, one.title || one.name));
    const moves = whole ? [] : [this.newest, this.earlier, this.later];
    const foot = h("div", { class: "mh-ov-foot" }, h("ul", { class: "mh-ov-keys" }, keys), this.span, moves, this.asTable);
    body.replaceChildren(this.words, this.box, this.table, foot);
    this.label = label;
    if (!whole) this.#moves();
  }

  #step(label, icon, way) {
    const mark = h("span", { class: "material-symbols-outlined", "aria-hidden": "true" }, icon);
    const button = h("button", { type: "button", class: "mh-pill mh-ov-step", "aria-label": label, title: label }, mark);
    button.addEventListener("click", () => this.#by(way * Math.max(1, Math.round(this.size * STEP))));
    return button;
  }

  get size() {
    return this.whole ? Math.max(1, this.points.length) : RANGES[this.range].shown;
  }

  #by(steps) {
    this.#to(moved(this.points, this.size, this.until, steps));
  }

  #to(until) {
    if (until === this.until) return;
    this.until = until;
    this.#show();
  }

  #turn() {
    const table = this.table.hidden;
    this.table.hidden = !table;
    this.box.hidden = table;
    this.asTable.setAttribute("aria-pressed", String(table));
  }

  /** By drag, by wheel and by the arrow keys. */
  #moves() {
    const { box } = this;
    let from = null;
    let rest = 0;
    const by = (pixels) => {
      rest += pixels / (box.clientWidth / this.size);
      const steps = Math.trunc(rest);
      rest -= steps;
      if (steps) this.#by(steps);
    };
    box.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      from = event.clientX;
      rest = 0;
      box.setPointerCapture(event.pointerId);
    });
    box.addEventListener("pointermove", (event) => {
      if (from === null) return;
      by(from - event.clientX);
      from = event.clientX;
    });
    for (const kind of ["pointerup", "pointercancel"]) box.addEventListener(kind, () => { from = null; });
    box.addEventListener(
      "wheel",
      (event) => {
        const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
        if (Math.abs(sideways) <= Math.abs(event.shiftKey ? 0 : event.deltaY)) return;
        event.preventDefault();
        by(sideways);
      },
      { passive: false },
    );
    box.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (way) this.#by(way);
      else if (event.key === "End") this.#to(null);
      else if (event.key === "Home") this.#by(-this.points.length);
      else return;
      event.preventDefault();
    });
  }

  /** New points. A view that was moved back stays where it is. */
  set(points, range) {
    if (range !== this.range) this.until = null;
    this.points = points;
    this.range = range;
    this.#show();
  }

  #show() {
    const { shown, back, first } = view(this.points, this.size, this.until);
    const empty = shown.every((point) => this.series.every(({ key }) => !point[key]));
    this.note.hidden = !empty;
    this.words.textContent = empty ? "" : summary(shown, this.range, this.series);
    this.canvas.setAttribute("aria-label", `${this.label}. ${this.words.textContent || NOTHING}`);
    this.span.textContent = shown.length ? span(shown[0].bucket, shown.at(-1).bucket, this.range) : "";
    this.earlier.disabled = first === 0;
    this.later.disabled = back === 0;
    this.newest.hidden = back === 0;
    this.#fill(shown);
    this.#paint(shown);
  }

  #fill(shown) {
    const head = h("tr", {}, h("th", { scope: "col" }, "Time"), this.series.map((one) => h("th", { scope: "col", class: "mh-num" }, one.title || one.name)));
    const rows = shown.map((point) =>
      h("tr", {}, h("th", { scope: "row" }, long(point.bucket, this.range)), this.series.map((one) => h("td", { class: "mh-num" }, one.write(point[one.key])))),
    );
    this.table.replaceChildren(h("table", { class: "mh-table" }, h("thead", {}, head), h("tbody", {}, rows.reverse())));
  }

  #paint(shown) {
    const tones = colours(this.box, this.series.map((one) => `--mh-ov-${one.tone}`));
    const data = {
      labels: shown.map((point) => (this.whole ? dated : short)(point.bucket, this.range)),
      datasets: this.series.map((one, at) => ({
        label: one.title || one.name,
        data: shown.map((point) => point[one.key]),
        borderColor: tones[at],
        backgroundColor: tones[at],
        borderDash: one.dash ? [5, 4] : [],
        borderWidth: 2,
        pointRadius: shown.length > 40 ? 0 : 2,
        pointHitRadius: 12,
        tension: 0.25,
        cubicInterpolationMode: "monotone",
      })),
    };
    if (this.chart) {
      this.chart.data = data;
      this.theme();
    } else {
      this.chart = new window.Chart(this.canvas, { type: "line", data, options: this.#options() });
      this.theme();
    }
  }

  #options() {
    const { write } = this.series[0];
    return {
      animation: false,
      responsive: true,
      maintainAspectRatio: false,
      interaction: { mode: "index", intersect: false },
      plugins: {
        legend: { display: false },
        tooltip: {
          callbacks: {
            title: ([item]) => long(view(this.points, this.size, this.until).shown[item.dataIndex].bucket, this.range),
            label: (item) => `${item.dataset.label}: ${this.series[item.datasetIndex].write(item.raw)}`,
          },
        },
      },
      scales: {
        x: { grid: { display: false }, ticks: { maxRotation: 0, autoSkipPadding: 18 } },
        y: { beginAtZero: true, suggestedMax: 1, border: { display: false }, ticks: { maxTicksLimit: 5, callback: (value) => write(value) } },
      },
    };
  }

  /** Paints in the colours of the theme that is on. */
  theme() {
    if (!this.chart) return;
    const [muted, line, ...tones] = colours(this.box, ["--mh-muted", "--mh-line", ...this.series.map((one) => `--mh-ov-${one.tone}`)]);
    const { scales } = this.chart.options;
    scales.x.ticks.color = muted;
    scales.y.ticks.color = muted;
    scales.y.grid = { color: line };
    this.chart.data.datasets.forEach((set, at) => Object.assign(set, { borderColor: tones[at], backgroundColor: tones[at] }));
    this.chart.update("none");
  }

  destroy() {
    if (this.chart) this.chart.destroy();
  }
}
