// What both log pages do: filters in the address, pages or one long scroll, reading, and what stands where nothing is.
import { api, query } from "../api.js";
import { exact } from "../format.js";
import { debounce, onAddress, readAddress, recall, remember, writeAddress } from "../ui.js";
import { KEPT, Rows } from "./rows.js";
import { Table } from "./table.js";

const HEAD = 200; // rows one look for new ones reads
const FRAME = 80; // ms between two drawings of the table

/** An input of the browser's zone and the instant of the API. */
const toInstant = (local) => (local && !Number.isNaN(Date.parse(local)) ? new Date(local).toISOString() : "");
function toLocal(instant) {
  const at = new Date(instant);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

export class List {
  /**
   * *source*: {name, path, fixed (of every page query), time, columns, describe, open(id), opened(id or ""), drawn()}.
   * The page holds: form[data-filters], table, and elements named by data-part.
   */
  constructor(root, source, first) {
    this.root = root;
    this.source = source;
    this.rows = new Rows(source.time);
    this.form = root.querySelector("form[data-filters]");
    this.parts = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.mode = recall(`${source.name}Mode`, "pages") === "scroll" ? "scroll" : "pages";
    this.size = Number(recall(`${source.name}Size`, 50)) || 50;
    this.address = readAddress();
    this.total = 0;
    this.turn = 0;
    this.cursor = null;
    this.news = false;
    this.table = new Table(root.querySelector("table"), {
      columns: source.columns(),
      describe: source.describe,
      open: (id) => this.open(id),
      sort: (by) => this.#sorted(by),
    });
    this.#controls();
    this.#restore();
    if (this.mode === "pages" ? this.size === first.per_page : !this.address.page && !this.address.sort_by) this.#take(first, Date.now());
    else this.reload();
    if (this.address.id) source.opened(this.address.id);
  }

  /** The filters in force, as the API names them. */
  get filters() {
    const names = [...this.form.elements].map((field) => field.name).filter((name) => name && this.address[name]);
    return Object.fromEntries(names.map((name) => [name, this.address[name]]));
  }

  get filtered() {
    return Object.keys(this.filters).length > 0;
  }

  /** Newest on top and nothing before it: new rows belong here. */
  get live() {
    if (this.mode === "scroll") return true;
    return this.page === 1 && !this.resorted;
  }

  get page() {
    return Math.max(1, Math.floor(Number(this.address.page)) || 1);
  }

  get resorted() {
    const { sort_by: by = "time", sort_dir: dir = "desc" } = this.address;
    return this.mode === "pages" && !(by === "time" && dir === "desc");
  }

  // -- controls

  #controls() {
    const { form, parts } = this;
    const changed = () => this.go({ ...this.#read(), page: "" });
    const later = debounce(changed);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      later.cancel();
      changed();
    });
    form.addEventListener("input", (event) => event.target.matches("input") && later());
    form.addEventListener("change", (event) => event.target.matches("select") && changed());
    for (const button of this.root.querySelectorAll("[data-clear]")) button.addEventListener("click", () => this.clear());
    for (const name of ["first", "prev", "next", "last"]) parts[name].addEventListener("click", () => this.#turned(name));
    for (const button of this.root.querySelectorAll("[data-mode]")) button.addEventListener("click", () => this.#moded(button.dataset.mode));
    parts.size.addEventListener("change", () => {
      this.size = Number(parts.size.value);
      remember(`${this.source.name}Size`, this.size);
      this.go({ page: "" }, true);
    });
    parts.retry.addEventListener("click", () => this.reload());
    parts.news.addEventListener("click", () => this.go({ page: "", sort_by: "", sort_dir: "" }, true));
    onAddress((address) => {
      const same = query({ ...this.address, id: "" }) === query({ ...address, id: "" });
      this.address = address;
      this.source.opened(address.id || "");
      if (same) return;
      this.#restore(true);
      this.reload();
    });
    new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.older(), { rootMargin: "500px" }).observe(parts.end);
  }

  #read() {
    const found = {};
    for (const field of this.form.elements) {
      if (field.name) found[field.name] = field.type === "datetime-local" ? toInstant(field.value) : field.value.trim();
    }
    return found;
  }

  /** The controls as the address has it; the one that is being typed into only where Back changed it. */
  #restore(all = false) {
    for (const field of this.form.elements) {
      if (!field.name || (!all && field === document.activeElement)) continue;
      const value = this.address[field.name] || "";
      if (field.tagName === "SELECT" && value && ![...field.options].some((option) => option.value === value)) field.add(new Option(value, value));
      field.value = field.type === "datetime-local" && value ? toLocal(value) : value;
    }
    const more = this.form.querySelector("details");
    if (more && [...more.querySelectorAll("[name]")].some((field) => this.address[field.name])) more.open = true;
    this.parts.size.value = String(this.size);
    for (const button of this.root.querySelectorAll("[data-mode]")) button.setAttribute("aria-pressed", String(button.dataset.mode === this.mode));
    const { sort_by: by = "time", sort_dir: dir = "desc" } = this.address;
    this.table.setSort(this.mode === "scroll" ? { by: null } : { by, dir });
    for (const part of [...this.root.querySelectorAll("[data-clear]")]) part.hidden = !this.filtered;
  }

  /** The address changed by *params*; read anew where that changes anything. */
  go(params, always = false) {
    const before = query({ ...this.address, id: "" });
    this.address = Object.fromEntries(Object.entries({ ...this.address, ...params }).filter(([, value]) => value !== "" && value !== undefined && value !== null));
    if (query({ ...this.address, id: "" }) === before && !always) return;
    writeAddress(this.address);
    this.#restore();
    this.reload();
  }

  clear() {
    this.form.reset();
    this.go(Object.fromEntries([...Object.keys(this.filters), "page"].map((name) => [name, ""])));
    this.form.querySelector("input")?.focus();
  }

  #sorted(by) {
    const { sort_by: old = "time", sort_dir: dir = "desc" } = this.address;
    const turned = old === by ? (dir === "desc" ? "asc" : "desc") : "desc";
    this.go({ sort_by: by === "time" && turned === "desc" ? "" : by, sort_dir: turned === "asc" ? "asc" : "", page: "" });
    this.table.head.querySelector("[aria-sort]:not([aria-sort='none']) button")?.focus();
  }

  #turned(name) {
    const last = Math.max(1, Math.ceil(this.total / this.size));
    const page = { first: 1, prev: this.page - 1, next: this.page + 1, last }[name];
    this.go({ page: page > 1 ? page : "" });
  }

  #moded(mode) {
    if (mode === this.mode) return;
    this.mode = mode;
    remember(`${this.source.name}Mode`, mode);
    this.go({ page: "", sort_by: "", sort_dir: "" }, true);
  }

  /** The dialog of row *id*; Back closes it. */
  open(id) {
    this.address = { ...this.address, id };
    writeAddress(this.address);
    this.source.opened(id);
  }

  closed() {
    if (!this.address.id) return;
    this.address = { ...this.address };
    delete this.address.id;
    writeAddress(this.address, { replace: true });
  }

  // -- reading

  #query(more) {
    return query({ ...this.source.fixed, ...this.filters, ...more });
  }

  #asked() {
    const { path } = this.source;
    if (this.mode === "scroll") return `${path}/cursor${this.#query({ limit: 50, history: "" })}`;
    // The cursor is never answered from memory: what was just told of is in it.
    if (this.live && this.source.flying) return `${path}/cursor${this.#query({ limit: this.size })}`;
    const { sort_by: by, sort_dir: dir } = this.address;
    return path + this.#query({ page: this.page, per_page: this.size, sort_by: by, sort_dir: dir });
  }

  /** Reads what is shown from the start; an answer that a later question has overtaken is thrown away. */
  async reload() {
    const turn = (this.turn += 1);
    const since = Date.now();
    this.root.dataset.loading = "";
    try {
      const [answer, flying] = await Promise.all([api("GET", this.#asked()), this.live && this.source.flying ? api("GET", this.source.flying(this.filters)) : null]);
      if (turn !== this.turn) return;
      this.#take({ ...answer, running: flying ? flying.entries : [] }, since);
      this.#failed("");
    } catch (problem) {
      if (turn !== this.turn) return;
      this.#failed(problem.message);
      if (problem.name !== "ApiError") throw problem;
    } finally {
      if (turn === this.turn) delete this.root.dataset.loading;
    }
  }

  #failed(text) {
    this.parts.error.hidden = !text;
    this.parts.problem.textContent = text;
  }

  #take(answer, since) {
    this.total = answer.total;
    this.cursor = this.mode === "scroll" ? answer.next_cursor || null : null;
    const entries = this.live ? [...answer.entries, ...(answer.running || [])] : answer.entries;
    this.rows.replace(entries, since, !this.live);
    this.news = false;
    this.source.taken?.(answer);
    this.draw();
    // What the end of the page asked for while this was on its way.
    if (this.parts.end.getBoundingClientRect().top < innerHeight + 500) this.older();
  }

  async older() {
    if (this.mode !== "scroll" || !this.cursor || this.loading || this.rows.size >= KEPT) return;
    this.loading = true;
    const turn = this.turn;
    try {
      const answer = await api("GET", `${this.source.path}/cursor${this.#query({ limit: 100, cursor: this.cursor, history: "" })}`);
      if (turn !== this.turn) return;
      for (const row of answer.entries) this.rows.put(row);
      this.cursor = answer.next_cursor;
      this.#failed("");
      this.draw();
    } catch (problem) {
      this.#failed(problem.message);
    } finally {
      this.loading = false;
    }
  }

  /** Scroll mode: the newest rows join those that are shown; where there is a hole between them, all are read anew. */
  async head(more = {}) {
    const turn = this.turn;
    const since = Date.now();
    const answer = await api("GET", `${this.source.path}/cursor${this.#query({ limit: HEAD, history: "", ...more })}`);
    if (turn !== this.turn) return;
    const overlaps = !answer.has_after || answer.entries.some((row) => this.rows.get(row.id)?.full);
    if (!overlaps && this.rows.size) {
      this.rows.replace(answer.entries, since);
      this.cursor = answer.next_cursor;
    } else for (const row of answer.entries) this.rows.put(row);
    this.draw();
  }

  // -- drawing

  /** Draws with the next frame, and no sooner than FRAME after the last time. */
  draw() {
    if (this.drawing) return;
    this.drawing = true;
    const wait = Math.max(0, FRAME - (performance.now() - (this.drawn || -FRAME)));
    const run = () => {
      this.drawing = false;
      this.drawn = performance.now();
      this.#draw();
    };
    // A hidden tab has no animation frames.
    const frame = () => (document.hidden ? setTimeout(run, FRAME) : requestAnimationFrame(run));
    if (wait) setTimeout(frame, wait);
    else frame();
  }

  #draw() {
    const { parts } = this;
    const shown = this.rows.ordered(this.mode === "scroll" ? KEPT : this.size);
    this.table.show(shown);
    const pages = Math.max(1, Math.ceil(this.total / this.size));
    const scroll = this.mode === "scroll";
    const some = shown.length > 0;
    parts.table.hidden = !some;
    parts.nothing.hidden = some || !this.filtered;
    parts.empty.hidden = some || this.filtered || this.page > 1;
    this.form.hidden = !parts.empty.hidden;
    parts.pager.hidden = scroll || this.total === null || (!some && this.page === 1);
    parts.position.textContent = `Page ${exact(this.page)} of ${exact(pages)}`;
    parts.first.disabled = parts.prev.disabled = this.page <= 1;
    parts.next.disabled = parts.last.disabled = this.page >= pages;
    parts.count.textContent = this.total === null ? "" : scroll ? `${exact(shown.length)} shown` : `${exact(this.total)} ${this.total === 1 ? this.source.noun[0] : this.source.noun[1]}`;
    parts.full.hidden = !scroll || this.rows.size < KEPT;
    parts.news.hidden = !this.news || this.live;
    this.source.shown?.(shown);
  }

  /** Something new came while the page shows something else. */
  announce() {
    if (this.live || this.news) return;
    this.news = true;
    this.draw();
  }

  relayout() {
    this.table.setColumns(this.source.columns());
    this.#restore();
    this.draw();
  }
}
