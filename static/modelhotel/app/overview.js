// The overview: what happened in the last hour, day or week, drawn anew as requests end.
import { api } from "./api.js";
import { number } from "./format.js";
import { every, on, onGap } from "./live.js";
import { h, onAddress, readAddress, recall, remember, writeAddress } from "./ui.js";
import * as bars from "./overview/bars.js";
import { circuits } from "./overview/circuits.js";
import * as figures from "./overview/figures.js";
import { Lines } from "./overview/lines.js";
import { Panel } from "./overview/panel.js";
import { METRICS, oneOf, RANGES } from "./overview/rules.js";
import { Source } from "./overview/source.js";

const COOL_DOWN = 5000; // ms between two refreshes by hand
const SOON = 400; // ms from a request's end to the reading
/** The server gives the same figures for 3 s, so what ended since is in a reading this much later (ms). */
const SPACING = 3200;
const REFRESH = [10, 30, 60, 120, 300, 600, 0]; // s; 0: never by the clock
const HOUSE = ["provider", "model"];

class Overview {
  constructor(root) {
    this.root = root;
    this.first = JSON.parse(document.getElementById("overview-data").textContent);
    this.source = new Source();
    this.costs = false;
    this.house = this.first.house;
    this.#read(readAddress());
    this.panels = root.querySelector("[data-panel=gauges]") ? this.#panels() : [];
    this.dialog = null;
    this.#header();
    this.#listen();
    this.#mark();
    const dark = root.querySelector("[data-circuits]");
    if (dark) circuits(dark, this.first.circuits);
    this.#clock();
    this.refresh().then(() => root.setAttribute("data-ready", ""));
  }

  // The address says what a linked view shows; without it this browser's last choice holds.
  #read(address) {
    this.range = oneOf(RANGES, address.range, oneOf(RANGES, recall("dashboardRange"), "24h"));
    this.metric = oneOf(METRICS, address.metric, oneOf(METRICS, recall("dashboardMetric"), "requests"));
    this.keys = address.keys === "all" ? "all" : "active";
  }

  #panels() {
    const stats = (panel) => this.#stats(panel);
    const curve = (series, label) => {
      let lines = null;
      return {
        load: (panel) => this.source.series(panel),
        draw: (body, points, panel) => {
          if (!lines || !body.contains(lines.box)) {
            lines = new Lines(body, series, { label });
            this.lines.push(lines);
          }
          lines.set(points, panel.range);
        },
      };
    };
    this.lines = [];
    const sort = {
      by: recall("dashboardLatencySort", "provider_ms") === "overhead_ms" ? "overhead_ms" : "provider_ms",
      changed: (by) => {
        sort.by = by;
        remember("dashboardLatencySort", by);
        this.panel("latency").redraw();
      },
    };
    const both = async (panel) => {
      const [found, points] = await Promise.all([this.#stats(panel), this.source.series(panel)]);
      return { stats: found, points };
    };
    const parts = {
      gauges: { load: both, draw: (body, data, panel) => figures.gauges(body, data, panel, (...which) => this.#history(...which)) },
      cards: {
        load: stats,
        draw: (body, data, panel) => figures.cards(body, data, panel, this.house, this.first.links),
        blank: (body, panel) => figures.cards(body, null, panel, this.house, this.first.links),
      },
      tokens: curve(
        [
          { key: "tokens", name: "tokens", title: "Tokens", write: number, tone: "1" },
          { key: "tokens_cache_hit", name: "from cache", title: "From cache", write: number, tone: "3", dash: true },
        ],
        "Tokens over time",
      ),
      requests: curve(
        [
          { key: "count", name: "requests", title: "Requests", write: number, tone: "2" },
          { key: "errors", name: "errors", title: "Errors", write: number, tone: "bad", dash: true },
        ],
        "Requests over time",
      ),
      providers: { metric: true, load: (panel) => this.source.shares(panel), draw: bars.waffle },
      mix: { load: stats, draw: bars.tokenMix },
      models: { metric: true, load: stats, draw: bars.models },
      latency: { load: stats, draw: (body, data) => bars.latency(body, data, sort) },
      keys: { metric: true, load: stats, draw: bars.keys },
    };
    return Object.entries(parts).map(([name, part]) => new Panel(this, name, part));
  }

  panel(name) {
    return this.panels.find((panel) => panel.name === name);
  }

  async #stats(panel) {
    const { range, keys } = panel;
    const metric = panel.hasMetric ? panel.metric : this.metric === "cost" && !this.costs ? "requests" : this.metric;
    const found = await this.source.figures({ range, metric, keys });
    if (found.total_cost_usd !== null && !this.costs) this.#priced();
    return found;
  }

  /** The first cost that is seen brings $ to the selectors. */
  #priced() {
    this.costs = true;
    this.#mark();
    for (const panel of this.panels) {
      panel.offer();
      if (panel.hasMetric && panel.wanted === "cost") queueMicrotask(() => panel.update());
    }
  }

  // -- what the header sets --

  #header() {
    const { root } = this;
    const buttons = (name, values) =>
      values.map(([value, label]) => {
        const pill = h("button", { type: "button", class: "mh-pill", dataset: { value } }, label);
        pill.addEventListener("click", () => this.#choose({ [name]: value }));
        return pill;
      });
    const fill = (slot, name, values) => root.querySelector(slot)?.replaceChildren(...buttons(name, values));
    fill("#overview-range", "range", Object.entries(RANGES).map(([value, { label }]) => [value, label]));
    fill("#overview-metric", "metric", Object.entries(METRICS));
    fill("#overview-keys", "keys", [["all", "All keys"], ["active", "Active keys only"]]);
    onAddress((address) => {
      const before = { range: this.range, metric: this.metric };
      this.#read(address);
      for (const panel of this.panels) {
        panel.follow({ range: before.range !== this.range && this.range, metric: before.metric !== this.metric && this.metric });
      }
      this.#mark();
      this.refresh();
    });
  }

  #choose(choice) {
    Object.assign(this, choice);
    if (choice.range) remember("dashboardRange", choice.range);
    if (choice.metric) remember("dashboardMetric", choice.metric);
    for (const panel of this.panels) panel.follow(choice);
    writeAddress({ ...readAddress(), range: this.range, metric: this.metric, keys: this.keys === "all" ? "all" : "" });
    this.#mark();
    for (const panel of this.panels) panel.update();
  }

  #mark() {
    const chosen = { range: this.range, metric: this.metric === "cost" && !this.costs ? "requests" : this.metric, keys: this.keys };
    for (const [name, value] of Object.entries(chosen)) {
      for (const pill of this.root.querySelectorAll(`#overview-${name} .mh-pill`)) {
        pill.setAttribute("aria-pressed", String(pill.dataset.value === value));
        if (pill.dataset.value === "cost") pill.hidden = !this.costs;
      }
    }
  }

  // -- when figures are read anew --

  /** Everything, once. */
  async refresh() {
    this.source.renew();
    if (this.dialog) this.dialog.update();
    await Promise.all(this.panels.map((panel) => panel.update()));
  }

  #clock() {
    const select = this.root.querySelector("#overview-every");
    const button = this.root.querySelector("#overview-refresh");
    if (!select) return;
    const wanted = Number(recall("dashboardRefreshSec", 30));
    let seconds = REFRESH.includes(wanted) ? wanted : 30;
    let stop = () => {};
    const start = () => {
      stop();
      stop = seconds ? every(seconds * 1000, () => this.refresh()) : () => {};
      button.hidden = seconds === 10;
    };
    select.value = String(seconds);
    select.addEventListener("change", () => {
      seconds = Number(select.value);
      remember("dashboardRefreshSec", seconds);
      start();
    });
    button.addEventListener("click", () => {
      button.disabled = true;
      setTimeout(() => { button.disabled = false; }, COOL_DOWN);
      this.refresh();
    });
    start();
  }

  /** One reading for all that ends in a moment; while requests end on and on, one every SPACING. */
  #listen() {
    let timer = 0;
    let ended = 0;
    const read = async () => {
      timer = 0;
      if (document.hidden) return; // shown again, it reads by itself
      const began = Date.now();
      await this.refresh();
      if (ended > began - SPACING && !timer) timer = setTimeout(read, SPACING);
    };
    on("request.completed", () => {
      ended = Date.now();
      if (!timer) timer = setTimeout(read, SOON);
    });
    document.addEventListener("visibilitychange", () => !document.hidden && !timer && (timer = setTimeout(read, 0)));
    onGap(() => {
      this.refresh();
      this.#house();
    });
    let house = 0;
    on("config.changed", (event) => {
      const kind = event.metadata?.kind;
      if (!HOUSE.includes(kind) && kind !== "virtual_key") return;
      clearTimeout(house);
      house = setTimeout(() => {
        if (HOUSE.includes(kind)) this.#house();
        this.refresh();
      }, SOON);
    });
    const painted = () => {
      for (const lines of this.lines || []) lines.theme();
      if (this.dialog) this.dialog.theme();
    };
    new MutationObserver(painted).observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
  }

  /** How many providers and models there are. */
  async #house() {
    const { house } = this;
    const [providers, models] = await Promise.all([
      house.providers && api("GET", "/api/providers"),
      house.models && api("GET", "/api/models/cursor?limit=1"),
    ]);
    if (providers) house.providers = [providers.filter((one) => one.enabled).length, providers.length];
    if (models) house.models = [models.enabled_total, models.total];
    this.panel("cards")?.redraw();
  }

  #history(gauge, range) {
    const dialog = figures.history(gauge, range, (wanted) => this.source.series({ range: wanted, keys: this.keys }));
    this.dialog = dialog;
    dialog.done.then(() => { this.dialog = null; });
  }
}

export const overview = new Overview(document.getElementById("overview"));
