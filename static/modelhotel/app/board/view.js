// Where the cards stand: sections, the index of letters, filters, and drawing only what is near the window.
import { h, debounce, onAddress, readAddress, recall, remember, writeAddress } from "../ui.js";
import { Card } from "./card.js";
import { FILTERS, passes, sections } from "./rules.js";

/** Cards within this distance of the window are drawn at once, the others when there is time. */
const NEAR = "800px";
const COLLAPSED = "board-collapsed";

const many = (count) => (count === 1 ? "1 group" : `${count} groups`);

export class View {
  /** *board*: store and selection; *root* the page's element. *filtered()* is called when other groups are shown. */
  constructor(board, root, filtered) {
    this.board = board;
    this.root = root;
    this.filtered = filtered;
    this.cards = new Map();
    this.parts = new Map();
    this.collapsed = new Set(recall(COLLAPSED, []));
    this.filters = { ...FILTERS };
    this.near = new IntersectionObserver((seen) => this.#seen(seen), { rootMargin: NEAR });
    this.list = root.querySelector("#board-sections");
    this.index = root.querySelector("#board-index");
    this.form = root.querySelector("#board-filters");
    this.#follow();
  }

  #follow() {
    const take = (found) => {
      for (const name of Object.keys(FILTERS)) this.filters[name] = found[name] ?? "";
      this.#fields();
    };
    take(readAddress());
    onAddress((found) => {
      take(found);
      this.filter();
    });
    const typed = () => {
      for (const name of Object.keys(FILTERS)) this.filters[name] = this.form.elements[name].value;
      this.filters.q = this.filters.q.trim();
      writeAddress(this.filters);
      this.filter();
    };
    const slow = debounce(typed, 300);
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.elements.q.addEventListener("input", slow);
    this.form.addEventListener("change", () => {
      slow.cancel();
      typed();
    });
  }

  #fields() {
    for (const name of Object.keys(FILTERS)) this.form.elements[name].value = this.filters[name];
  }

  get active() {
    return Object.values(this.filters).some(Boolean);
  }

  clear() {
    this.filters = { ...FILTERS };
    this.#fields();
    writeAddress(this.filters);
    this.filter();
    this.form.elements.q.focus();
  }

  /** The providers that hold an entry somewhere, for the filter. */
  providers() {
    const select = this.form.elements.provider;
    const names = new Map();
    for (const group of this.board.store.groups.values()) {
      for (const entry of group.entries) names.set(entry.provider_id, entry.provider_name);
    }
    const wanted = [...names].sort((a, b) => a[1].localeCompare(b[1]));
    const text = JSON.stringify(wanted);
    if (this.known !== text) {
      this.known = text;
      select.replaceChildren(h("option", { value: "" }, "All providers"), ...wanted.map(([id, name]) => h("option", { value: id }, name)));
    }
    select.value = this.filters.provider;
    if (select.value !== this.filters.provider) {
      // Of a provider that has no entry any more.
      select.append(h("option", { value: this.filters.provider }, "(no entries)"));
      select.value = this.filters.provider;
      this.known = "";
    }
  }

  /** The name of the provider the filter is set to. */
  providerName() {
    const { options, selectedIndex } = this.form.elements.provider;
    return options[selectedIndex]?.textContent ?? "";
  }

  /** Cards, sections and index as the groups are now. */
  layout() {
    const groups = this.board.store.list();
    const ids = new Set(groups.map((group) => group.id));
    for (const [id, card] of this.cards) {
      if (ids.has(id)) continue;
      this.near.unobserve(card.element);
      card.element.remove();
      this.cards.delete(id);
    }
    for (const group of groups) {
      if (this.cards.has(group.id)) continue;
      const card = new Card(this.board, group);
      this.cards.set(group.id, card);
      this.near.observe(card.element);
    }
    const wanted = sections(groups);
    const names = new Set(wanted.map(([name]) => name));
    for (const [name, part] of this.parts) {
      if (names.has(name)) continue;
      part.element.remove();
      this.parts.delete(name);
    }
    const focused = document.activeElement;
    wanted.forEach(([name, members], at) => {
      if (!this.parts.has(name)) this.parts.set(name, this.#part(name));
      const part = this.parts.get(name);
      part.members = members.map((group) => group.id);
      if (this.list.children[at] !== part.element) this.list.insertBefore(part.element, this.list.children[at] ?? null);
      const elements = part.members.map((id) => this.cards.get(id).element);
      const same = part.grid.children.length === elements.length && elements.every((one, i) => part.grid.children[i] === one);
      if (!same) part.grid.replaceChildren(...elements);
    });
    if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
    this.#letters(wanted.map(([name]) => name));
    this.providers();
    this.filter();
    this.#later();
  }

  #part(name) {
    const key = name === "#" ? "other" : name.toLowerCase();
    const grid = h("div", { class: "mh-fgroups", id: `groups-${key}` });
    const count = h("span", { class: "mh-count" });
    const head = h(
      "button",
      { type: "button", class: "mh-section-fold", "aria-controls": grid.id },
      h("span", { class: "material-symbols-outlined", "aria-hidden": "true" }, "expand_more"),
      name === "#" ? "Other" : name,
      count,
    );
    const element = h("section", { id: `section-${key}`, class: "mh-board-section" }, h("h2", {}, head), grid);
    const part = { element, grid, head, count, members: [] };
    const fold = () => {
      const closed = this.collapsed.has(name);
      grid.hidden = closed;
      head.setAttribute("aria-expanded", String(!closed));
    };
    head.addEventListener("click", () => {
      if (!this.collapsed.delete(name)) this.collapsed.add(name);
      remember(COLLAPSED, [...this.collapsed]);
      fold();
    });
    part.unfold = () => this.collapsed.has(name) && head.click();
    fold();
    return part;
  }

  #letters(names) {
    const letters = names.filter((name) => name !== "Custom");
    this.index.hidden = letters.length <= 3 && !names.includes("Custom");
    const text = names.join();
    if (this.indexed === text) return;
    this.indexed = text;
    this.index.replaceChildren(
      ...names.map((name) => {
        const go = () => {
          const part = this.parts.get(name);
          part.unfold();
          part.element.scrollIntoView({ block: "start" });
          part.head.focus({ preventScroll: true });
        };
        const title = name === "#" ? "Other names" : name === "Custom" ? "Custom groups" : `Groups with ${name}`;
        const sign = name === "Custom" ? "★" : name;
        return h("button", { type: "button", class: "mh-letter", dataset: { section: name }, title, "aria-label": title, on: { click: go } }, sign);
      }),
    );
  }

  /** Shows what passes the filters. */
  filter() {
    let shown = 0;
    for (const [name, part] of this.parts) {
      let here = 0;
      for (const id of part.members) {
        const fits = passes(this.board.store.get(id), this.filters);
        this.cards.get(id).element.hidden = !fits;
        if (fits) here += 1;
      }
      part.element.hidden = here === 0;
      part.count.textContent = many(here);
      const letter = [...this.index.children].find((one) => one.dataset.section === name);
      if (letter) letter.disabled = here === 0;
      shown += here;
    }
    this.root.querySelector("#board-clear").hidden = !this.active;
    this.filtered(shown);
  }

  shown() {
    return [...this.cards.values()].filter((card) => card.shown).map((card) => card.id);
  }

  #seen(entries) {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      this.near.unobserve(entry.target);
      this.#draw(this.cards.get(entry.target.dataset.group));
    }
  }

  #draw(card) {
    if (!card || card.filled) return;
    card.fill();
    this.board.tick(card);
  }

  /** The rest in idle time, so that the keyboard and the browser's search reach every card. */
  #later() {
    if (this.idle) return;
    const work = (deadline) => {
      this.idle = 0;
      for (const card of this.cards.values()) {
        if (card.filled) continue;
        if (deadline.timeRemaining() < 4) {
          this.#later();
          return;
        }
        this.near.unobserve(card.element);
        this.#draw(card);
      }
    };
    this.idle = window.requestIdleCallback ? requestIdleCallback(work) : setTimeout(() => work({ timeRemaining: () => 16 }), 200);
  }
}
