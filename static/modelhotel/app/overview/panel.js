// A panel loads by itself, says when it could not, and keeps what it showed last.
import { h, recall, remember } from "../ui.js";
import { METRICS, oneOf, RANGES } from "./rules.js";

const OWN = "dashboardPanels"; // {panel: {range, metric}} of this browser

function choice(label, options, chosen, changed) {
  const items = options.map(([value, text]) => h("option", { value, selected: value === chosen }, text));
  const select = h("select", { class: "mh-input mh-ov-choice", "aria-label": label }, items);
  select.addEventListener("change", () => changed(select.value));
  return select;
}

export class Panel {
  /**
   * *page*: {range, metric, keys, costs, source}. *load*(panel) -> promise of data; *draw*(body, data, panel).
   * *metric*: whether it has one of its own. *blank*(body): what can be shown without data.
   */
  constructor(page, name, { load, draw, metric = false, blank = (body) => body.replaceChildren() }) {
    this.page = page;
    this.name = name;
    this.section = document.querySelector(`[data-panel="${name}"]`);
    this.title = this.section.querySelector("h2").textContent;
    this.body = this.section.querySelector("[data-slot=body]");
    this.controls = this.section.querySelector("[data-slot=controls]");
    this.problem = this.section.querySelector("[data-slot=problem]");
    this.load = load;
    this.draw = draw;
    this.blank = blank;
    this.hasMetric = metric;
    this.turn = 0;
    this.data = null;
    this.extra = [];
    const own = (recall(OWN, {}) || {})[name] || {};
    this.range = oneOf(RANGES, own.range, page.range);
    this.wanted = oneOf(METRICS, own.metric, page.metric);
    this.offer();
  }

  get keys() {
    return this.page.keys;
  }

  /** $ is offered while some request has a cost. */
  get metric() {
    return this.wanted === "cost" && !this.page.costs ? "requests" : this.wanted;
  }

  /** What the global selectors say; an own choice ends with it. */
  follow({ range, metric }) {
    if (range) this.range = range;
    if (metric) this.wanted = metric;
    this.#keep();
    this.offer();
  }

  #keep() {
    const all = recall(OWN, {}) || {};
    const own = {};
    if (this.range !== this.page.range) own.range = this.range;
    if (this.hasMetric && this.wanted !== this.page.metric) own.metric = this.wanted;
    all[this.name] = own;
    remember(OWN, all);
  }

  offer() {
    const ranges = Object.entries(RANGES).map(([value, { label }]) => [value, label]);
    const controls = [...this.extra];
    const set = (name) => (value) => {
      this[name] = value;
      this.#keep();
      this.update();
    };
    if (this.hasMetric) {
      const metrics = Object.entries(METRICS).filter(([value]) => value !== "cost" || this.page.costs);
      controls.push(choice(`${this.title}: metric`, metrics, this.metric, set("wanted")));
    }
    controls.push(choice(`${this.title}: range`, ranges, this.range, set("range")));
    this.controls.replaceChildren(...controls);
  }

  /** Reads and draws. An answer that was overtaken by a later question is dropped. */
  async update() {
    const turn = (this.turn += 1);
    this.body.setAttribute("aria-busy", "true");
    try {
      const data = await this.load(this);
      if (turn !== this.turn) return;
      this.data = data;
      this.problem.hidden = true;
      this.redraw();
    } catch (problem) {
      if (turn !== this.turn) return;
      if (problem.name !== "ApiError") throw problem;
      this.#failed(problem.message);
    } finally {
      if (turn === this.turn) this.body.removeAttribute("aria-busy");
    }
  }

  redraw() {
    if (this.data !== null) this.draw(this.body, this.data, this);
  }

  #failed(message) {
    const retry = h("button", { type: "button", class: "mh-btn mh-btn-quiet mh-ov-retry" }, "Retry");
    retry.addEventListener("click", () => {
      this.page.source.renew();
      this.update();
    });
    this.problem.replaceChildren(h("span", {}, message), retry);
    this.problem.hidden = false;
    // Nothing was shown yet: a skeleton would promise that something still comes.
    if (this.data === null) this.blank(this.body, this);
  }
}
