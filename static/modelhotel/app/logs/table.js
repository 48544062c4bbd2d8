// A table whose rows are changed in place: one element per id, cells touched only where they say something else.
import { h } from "../ui.js";

/** What a cell holds: a text, or {text, ...props of h} or a list of these. Compared as JSON, built only when new. */
function fill(cell, content) {
  const key = typeof content === "string" ? content : JSON.stringify(content);
  if (cell.mhKey === key) return;
  cell.mhKey = key;
  if (typeof content === "string") {
    cell.textContent = content;
    cell.removeAttribute("title");
    return;
  }
  const parts = Array.isArray(content) ? content : [content];
  cell.replaceChildren(...parts.filter(Boolean).map((part) => {
    if (typeof part === "string") return document.createTextNode(part);
    const { tag = "span", text, ...props } = part;
    return h(tag, props, text);
  }));
}

export class Table {
  /** *columns*: {key, label, width (em), sort?, num?, cell(row)}. *describe*(row): attributes of its line. */
  constructor(element, { columns, describe = () => ({}), open, sort }) {
    this.element = element;
    this.describe = describe;
    this.sort = sort;
    this.rows = new Map();
    this.head = element.createTHead();
    this.body = element.createTBody();
    this.body.addEventListener("click", (event) => {
      if (event.target.closest("a, button, [data-copy-text]") || String(getSelection())) return;
      const line = event.target.closest("tr");
      if (line) open(line.dataset.id);
    });
    this.body.addEventListener("keydown", (event) => this.#key(event, open));
    this.setColumns(columns);
  }

  #key(event, open) {
    const line = event.target;
    if (line.tagName !== "TR") return;
    if (event.key === "Enter") open(line.dataset.id);
    else if (event.key === "ArrowDown") line.nextElementSibling?.focus();
    else if (event.key === "ArrowUp") line.previousElementSibling?.focus();
    else return;
    event.preventDefault();
  }

  setColumns(columns) {
    this.columns = columns;
    this.element.querySelector("colgroup")?.remove();
    this.element.prepend(h("colgroup", {}, columns.map(({ width }) => h("col", { style: `width:${width}em` }))));
    this.element.style.minWidth = `${columns.reduce((sum, { width }) => sum + width, 0)}em`;
    this.body.replaceChildren();
    this.rows.clear();
    this.setSort(this.sorted || {});
  }

  /** {by, dir}; *by* null: the order can not be changed. */
  setSort({ by, dir }) {
    this.sorted = { by, dir };
    const cells = this.columns.map((column) => {
      const may = column.sort && by !== null;
      const active = may && column.sort === by;
      const state = active ? (dir === "asc" ? "ascending" : "descending") : "none";
      const label = may ? h("button", { type: "button", on: { click: () => this.sort(column.sort) } }, column.label) : column.label;
      return h("th", { scope: "col", class: column.num ? "mh-num" : null, "aria-sort": may ? state : null, title: column.hint || null }, label);
    });
    this.head.replaceChildren(h("tr", {}, cells));
  }

  show(rows) {
    const focused = document.activeElement;
    const wanted = new Set(rows.map((row) => row.id));
    for (const [id, line] of this.rows) {
      if (wanted.has(id)) continue;
      line.remove();
      this.rows.delete(id);
    }
    let at = this.body.firstChild;
    for (const row of rows) {
      const line = this.#line(row);
      if (at && at !== line && at.nextSibling === line) {
        // One line moves down: taking it out costs less than moving all that follow.
        const moved = at;
        at = line;
        moved.remove();
      }
      if (at === line) at = line.nextSibling;
      else this.body.insertBefore(line, at);
    }
    if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  }

  #line(row) {
    let line = this.rows.get(row.id);
    if (!line) {
      line = h("tr", { tabindex: "0", dataset: { id: row.id } }, this.columns.map(({ key, num }) => h("td", { class: num ? "mh-num" : null, dataset: { column: key } })));
      this.rows.set(row.id, line);
    }
    if (line.mhRow !== row) {
      line.mhRow = row;
      this.columns.forEach((column, at) => fill(line.cells[at], column.cell(row)));
      for (const [name, value] of Object.entries(this.describe(row))) {
        if (line.dataset[name] !== value) line.dataset[name] = value;
      }
    }
    return line;
  }

  /** Writes one column of the rows *which*(row) says. */
  refresh(key, which) {
    const at = this.columns.findIndex((column) => column.key === key);
    if (at < 0) return;
    for (const line of this.rows.values()) if (which(line.mhRow)) fill(line.cells[at], this.columns[at].cell(line.mhRow));
  }
}
