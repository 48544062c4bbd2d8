// The page Models: one page of the list at a time, whatever there is of it.
import { api, busy, query } from "./api.js";
import { onCounts } from "./discovery.js";
import { exact } from "./format.js";
import { every, on, onGap } from "./live.js";
import { toast } from "./toast.js";
import { debounce, h, onAddress, readAddress, recall, remember, writeAddress } from "./ui.js";
import { Claims } from "./models/claims.js";
import { Detail } from "./models/detail.js";
import { ABILITIES } from "./models/facts.js";
import { purge } from "./models/purge.js";
import { header, line, SORTS } from "./models/table.js";

const GATHER = 200; // ms in which events become one reading
const LIST_EVERY = 60_000; // ms
const SETTLE = 100; // ms until a longer table has moved the end of the page
const KEPT = 1000; // rows in the page while it scrolls
const FIRST_SIZE = 50; // what the server sends with the page
const SIZES = [25, 50, 100, 200];
const STATES = { enabled: ["true", "true"], parked: ["true", "false"], disabled: ["false", ""] };
const SCOPES = { active: "true", disabled: "false" };
const TOP = { cursor: "", direction: "", at: 1 };

class Page {
  constructor(root) {
    this.root = root;
    this.mayChange = root.hasAttribute("data-may-change");
    this.mayAcknowledge = root.hasAttribute("data-may-acknowledge");
    const data = JSON.parse(document.getElementById("models-data").textContent);
    this.any = data.any;
    this.providers = new Map(data.providers.map((one) => [one.id, one]));
    this.filters = root.querySelector("#model-filters");
    this.bodyRows = root.querySelector("#model-table tbody");
    this.mode = recall("models-mode", "pages") === "scroll" ? "scroll" : "pages";
    this.size = SIZES.includes(recall("models-size")) ? recall("models-size") : FIRST_SIZE;
    this.place = TOP;
    this.readings = 0;
    this.detail = null;
    this.claims = null;
    this.waiting = false;
    this.#controls();
    this.#fill(readAddress());
    this.#take(data.page);
    if (this.size !== FIRST_SIZE) this.load(TOP);
    this.#live();
    this.#show(readAddress().model);
    if (readAddress().discrepancies) this.#openClaims();
  }

  #find(selector) {
    return this.root.querySelector(selector);
  }

  #controls() {
    const select = this.filters.elements.provider;
    for (const one of this.providers.values()) select.append(h("option", { value: one.id }, one.enabled ? one.name : `${one.name} (disabled)`));
    this.chips = ABILITIES.map(([id, name, kind]) =>
      h("button", { type: "button", class: "mh-pill", "aria-pressed": "false", dataset: { kind, id }, on: { click: (event) => this.#chip(event.currentTarget) } }, name),
    );
    this.#find("#model-chips").append(...this.chips);
    const typed = debounce(() => this.#filtered());
    this.filters.elements.q.addEventListener("input", typed);
    for (const name of ["provider", "state", "scope"]) this.filters.elements[name].addEventListener("change", () => this.#filtered(name));
    this.filters.addEventListener("submit", (event) => {
      event.preventDefault();
      typed.cancel();
      this.#filtered();
    });
    for (const id of ["#model-clear", "#model-empty-clear"]) this.#find(id).addEventListener("click", () => this.#clear());
    for (const pill of this.root.querySelectorAll("[data-mode]")) pill.addEventListener("click", () => this.#paging({ mode: pill.dataset.mode }));
    this.#find("#model-size").addEventListener("change", (event) => this.#paging({ size: Number(event.target.value) }));
    for (const button of this.root.querySelectorAll("[data-to]")) button.addEventListener("click", () => this.#turn(button));
    this.#find("#model-failed button").addEventListener("click", () => this.load(this.place));
    this.purger = this.#find("#model-purge");
    if (this.purger) this.purger.addEventListener("click", () => this.#purge());
    this.#find("#model-claims").addEventListener("click", () => this.#openClaims());
    onCounts((counts) => this.#counted(counts));
    const end = new IntersectionObserver(
      (seen) => {
        this.endSeen = seen.at(-1).isIntersecting;
        if (this.endSeen) this.#more();
      },
      { rootMargin: "300px" },
    );
    end.observe(this.#find("#model-end"));
    this.bodyRows.addEventListener("click", (event) => {
      const at = event.target.closest("tr");
      if (at && !event.target.closest("button, a") && !String(getSelection())) this.#open(this.rows.find((row) => row.id === at.dataset.id));
    });
    onAddress((params) => {
      this.#fill(params);
      this.load(TOP);
      if (params.model && !this.detail) this.#show(params.model);
      else if (!params.model && this.detail) this.detail.close();
      if (params.discrepancies) this.#openClaims();
      else if (this.claims) this.claims.close();
    });
  }

  #live() {
    const soon = debounce(() => this.#again(), GATHER);
    on("config.changed", ({ metadata }) => {
      if (!["provider", "model"].includes(metadata.kind)) return;
      soon();
      if (!this.detail) return;
      const { row } = this.detail;
      if (metadata.action === "deleted" && [row.id, row.provider_id].includes(metadata.id)) this.detail.gone();
      // A change of several has no id.
      else if (!metadata.id || [row.id, row.provider_id].includes(metadata.id)) this.detail.refresh().catch(() => null);
    });
    on("discovery.*", soon);
    onGap(soon);
    every(LIST_EVERY, () => this.#again());
  }

  /** The same view as it is now; a page that was scrolled through is left as it is but for its head. */
  #again() {
    if (this.mode === "scroll" && this.rows.length > this.size) return this.#refreshRows();
    return this.load(this.place, { quiet: true });
  }

  // -- filters

  /** What the address says. */
  asked() {
    const { q, provider, state, scope } = this.filters.elements;
    const chosen = (kind) => this.chips.filter((chip) => chip.dataset.kind === kind && chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.id).join(",");
    return { q: q.value.trim(), provider: provider.value, state: state.value, scope: scope.value, capabilities: chosen("capabilities"), outputs: chosen("outputs"), sort: this.sort === "name" ? "" : this.sort, dir: this.dir === "desc" ? "desc" : "" };
  }

  /** The same for the API. */
  #filtersOfApi() {
    const { q, provider, state, scope, capabilities, outputs } = this.asked();
    const [enabled, own] = STATES[state] || ["", ""];
    return { search: q, provider_id: provider, enabled, provider_enabled: own || SCOPES[scope] || "", capabilities, outputs };
  }

  #fill(params) {
    const { q, provider, state, scope } = this.filters.elements;
    q.value = params.q || "";
    provider.value = this.providers.has(params.provider) ? params.provider : "";
    state.value = params.state in STATES ? params.state : "";
    scope.value = params.scope in SCOPES ? params.scope : "";
    for (const chip of this.chips) {
      const chosen = (params[chip.dataset.kind] || "").split(",").includes(chip.dataset.id);
      chip.setAttribute("aria-pressed", String(chosen));
    }
    this.sort = SORTS.includes(params.sort) ? params.sort : "name";
    this.dir = params.dir === "desc" ? "desc" : "asc";
    this.#find("#model-table thead tr").replaceChildren(...header(this.sort, this.dir, (sort, dir) => this.#sorted(sort, dir)));
  }

  #chip(chip) {
    chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
    this.#filtered();
  }

  #filtered(name = "") {
    const { state, scope } = this.filters.elements;
    // "Enabled" and "Parked" say themselves whether the provider is on.
    if (name === "state" && ["enabled", "parked"].includes(state.value)) scope.value = "";
    if (name === "scope" && scope.value && ["enabled", "parked"].includes(state.value)) state.value = "";
    writeAddress(this.asked());
    this.load(TOP);
  }

  #sorted(sort, dir) {
    this.#fill({ ...this.asked(), sort, dir });
    writeAddress(this.asked());
    this.load(TOP);
    this.#find(`[data-sort="${sort}"]`).focus();
  }

  #clear() {
    const { sort, dir } = this.asked();
    this.#fill({ sort, dir });
    this.#filtered();
    this.filters.elements.q.focus();
  }

  // -- pages

  #paging({ mode = this.mode, size = this.size }) {
    Object.assign(this, { mode, size });
    remember("models-mode", mode);
    remember("models-size", size);
    this.load(TOP);
  }

  #read({ cursor, direction, reversed = false, limit = this.size }) {
    const dir = reversed ? (this.dir === "desc" ? "asc" : "desc") : this.dir;
    return api("GET", `/api/models/cursor${query({ ...this.#filtersOfApi(), sort_by: this.sort, sort_dir: dir, limit, cursor, direction })}`);
  }

  /** Shows the page at *place*. Only the newest reading counts. */
  async load(place, { quiet = false } = {}) {
    const reading = (this.readings += 1);
    this.place = place;
    if (!quiet) this.root.querySelector(".mh-models-scroll").setAttribute("aria-busy", "true");
    try {
      const page = await this.#read(place);
      if (reading !== this.readings) return;
      this.#take(place.reversed ? turned(page) : page);
      this.#failed("");
    } catch (problem) {
      if (problem.name !== "ApiError") throw problem;
      // The last good content stays.
      if (reading === this.readings) this.#failed(problem.message);
    } finally {
      if (reading === this.readings) this.root.querySelector(".mh-models-scroll").removeAttribute("aria-busy");
    }
  }

  #failed(text) {
    const box = this.#find("#model-failed");
    box.hidden = !text;
    box.firstElementChild.textContent = text;
  }

  #turn(button) {
    const pages = Math.max(1, Math.ceil(this.page.total / this.size));
    const at = this.place.at;
    const to = {
      first: () => TOP,
      prev: () => (at <= 2 ? TOP : { cursor: this.page.prev_cursor, direction: "before", at: at - 1 }),
      next: () => ({ cursor: this.page.next_cursor, direction: "after", at: Math.min(pages, at + 1) }),
      last: () => ({ cursor: "", direction: "", reversed: true, limit: this.page.total % this.size || this.size, at: pages }),
    };
    busy(button, this.load(to[button.dataset.to]())).then(() => {
      this.#pager();
      this.root.querySelector(".mh-models-scroll").scrollIntoView({ block: "nearest" });
    });
  }

  async #more() {
    if (this.mode !== "scroll" || this.loading || !this.page.next_cursor || this.rows.length >= KEPT) return;
    const reading = this.readings;
    this.loading = true;
    try {
      const page = await this.#read({ cursor: this.page.next_cursor, direction: "after" });
      if (reading !== this.readings) return;
      const known = new Set(this.rows.map((row) => row.id));
      this.#take({ ...page, entries: [...this.rows, ...page.entries.filter((row) => !known.has(row.id))].slice(0, KEPT) });
    } catch (problem) {
      if (problem.name !== "ApiError") throw problem;
      this.#failed(problem.message);
    } finally {
      this.loading = false;
    }
  }

  /** What was scrolled through, read anew from the top as far as it reaches. */
  async #refreshRows() {
    const reading = this.readings;
    const wanted = this.rows.length;
    const rows = [];
    let page = null;
    do {
      page = await this.#read({ cursor: page ? page.next_cursor : "", direction: page ? "after" : "", limit: 200 });
      rows.push(...page.entries);
    } while (page.next_cursor && rows.length < wanted);
    if (reading === this.readings) this.#take({ ...page, entries: rows.slice(0, KEPT) });
  }

  // -- showing

  #take(page) {
    this.page = page;
    this.rows = page.entries;
    this.any ||= page.total > 0;
    this.#draw();
    const { total, enabled_total: on, parked_total: parked, disabled_total: off } = page;
    const parts = [`${exact(total)} model${total === 1 ? "" : "s"}`, `${exact(on)} enabled`, parked && `${exact(parked)} of disabled providers`, off && `${exact(off)} disabled`];
    this.#find("#model-count").textContent = parts.filter(Boolean).join(" · ");
    const filtered = Object.entries(this.asked()).some(([name, value]) => value && name !== "sort" && name !== "dir");
    this.#find("#model-clear").hidden = !filtered;
    // Nothing to filter and nothing to page through: only the way to the first one.
    const nothing = !this.any && !filtered;
    this.#find('[data-empty="none"]').hidden = !nothing;
    this.#find("#model-filters").hidden = nothing;
    // What is waiting may be about models that are gone.
    this.#find(".mh-models-bar").hidden = nothing && !this.waiting;
    this.#find('[data-empty="match"]').hidden = total > 0 || nothing;
    this.#find(".mh-models-scroll").hidden = total === 0;
    if (this.purger) {
      this.purger.hidden = off === 0;
      this.purger.textContent = `Delete ${exact(off)} disabled`;
    }
    this.#pager();
    // A page too short to push the end out of sight tells nobody of it.
    if (this.mode === "scroll") setTimeout(() => this.endSeen && this.#more(), SETTLE);
  }

  /** Rows that did not change keep their elements, and with them the keyboard's place. */
  #draw() {
    const before = new Map([...this.bodyRows.children].map((element) => [element.dataset.id, element]));
    const wanted = this.rows.map((row) => {
      const mark = JSON.stringify(row);
      const stands = before.get(row.id);
      if (stands && stands.mhMark === mark) return stands;
      const made = line(row, (one) => this.#open(one));
      made.mhMark = mark;
      return made;
    });
    const same = wanted.length === this.bodyRows.children.length && wanted.every((element, at) => this.bodyRows.children[at] === element);
    if (!same) this.bodyRows.replaceChildren(...wanted);
  }

  #pager() {
    const pages = Math.max(1, Math.ceil(this.page.total / this.size));
    const { at } = this.place;
    for (const pill of this.root.querySelectorAll("[data-mode]")) pill.setAttribute("aria-pressed", String(pill.dataset.mode === this.mode));
    this.#find("#model-size").value = String(this.size);
    this.#find("#model-pager").hidden = this.mode === "scroll" || pages < 2;
    this.#find("#model-at").textContent = `Page ${exact(at)} of ${exact(pages)}`;
    const closed = { first: at === 1, prev: !this.page.prev_cursor, next: !this.page.next_cursor, last: !this.page.next_cursor };
    for (const button of this.root.querySelectorAll("[data-to]")) button.disabled = closed[button.dataset.to];
    const full = this.mode === "scroll" && this.rows.length >= KEPT && this.page.total > KEPT;
    this.#find("#model-end").textContent = full ? `The first ${exact(KEPT)} of ${exact(this.page.total)} are shown. Filter to see others.` : "";
  }

  // -- one model

  #open(row) {
    if (!row || this.detail) return;
    writeAddress({ ...this.asked(), model: row.id }, { replace: true });
    this.detail = new Detail(row, {
      mayChange: this.mayChange,
      providers: this.providers,
      changed: () => this.#again(),
      closed: () => {
        this.detail = null;
        writeAddress(this.asked(), { replace: true });
      },
    });
  }

  #counted({ claim_count: waiting, informational_unseen: news }) {
    const chips = this.root.querySelectorAll("#model-claims .mh-chip");
    for (const [at, number] of [waiting, news].entries()) {
      chips[at].hidden = number === 0;
      chips[at].firstElementChild.textContent = exact(number);
    }
    this.waiting = waiting + news > 0;
    if (this.waiting) this.#find(".mh-models-bar").hidden = false;
  }

  #openClaims() {
    if (this.claims) return;
    writeAddress({ ...this.asked(), discrepancies: "1" }, { replace: true });
    this.claims = new Claims({
      mayChange: this.mayChange,
      mayAcknowledge: this.mayAcknowledge,
      providers: this.providers,
      changed: () => this.#again(),
      closed: () => {
        this.claims = null;
        writeAddress(this.asked(), { replace: true });
      },
    });
  }

  async #show(id) {
    if (!id) return;
    try {
      this.#open(await api("GET", `/api/models/${encodeURIComponent(id)}`));
    } catch (problem) {
      if (problem.name !== "ApiError") throw problem;
      toast(problem.message, "error");
      writeAddress(this.asked(), { replace: true });
    }
  }

  async #purge() {
    try {
      const gone = await busy(this.purger, purge(this.#filtersOfApi()));
      if (gone === null) return;
      toast(`${exact(gone)} model${gone === 1 ? "" : "s"} deleted.`, "success");
      await this.load(TOP);
    } catch (problem) {
      if (problem.name !== "ApiError") throw problem;
      toast(problem.message, "error");
    }
  }
}

/** A page that was read from the end: its rows the right way round, with its cursors for the ordinary order. */
function turned(page) {
  return { ...page, entries: [...page.entries].reverse(), has_before: page.has_after, has_after: false, prev_cursor: page.next_cursor, next_cursor: null };
}

const root = document.getElementById("models");
if (root) new Page(root);
