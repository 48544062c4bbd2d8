// The virtual keys: ten a page, sorted and filtered here; made, changed and deleted through the API.
import { api, busy } from "./api.js";
import { confirm } from "./dialog.js";
import { age, exact, instant, number } from "./format.js";
import { every, on, onGap } from "./live.js";
import { toast } from "./toast.js";
import { debounce, h, onAddress, readAddress, writeAddress } from "./ui.js";
import { ConnectDialog } from "./keys/connect.js";
import { CreatedDialog } from "./keys/created.js";
import { KeyForm } from "./keys/form.js";
import * as limits from "./keys/limits.js";
import * as rules from "./keys/rules.js";

const ADDRESS = "/api/virtual-keys";
const POLL = 10_000; // ms; tokens and last use change without an event
const LARGE = 500; // keys above which a poll asks for the shown ones only
const GATHER = 50; // ms; events of one moment are answered by one reading
const TICK = 5000; // ms between two looks at the ages
const SEVERAL = 5; // changed keys above which one list is cheaper than each by itself
const NAMES = 3; // providers a row names

const many = (count, word) => `${exact(count)} ${word}${count === 1 ? "" : "s"}`;

export class KeysPage {
  constructor(root) {
    this.root = root;
    this.mayChange = root.hasAttribute("data-may-change");
    const first = JSON.parse(document.getElementById("keys-data").textContent);
    this.keys = new Map(first.keys.map((key) => [key.id, key]));
    this.defaults = first.defaults;
    this.offered = first.offered;
    this.setProviders(first.providers);
    this.base = `${location.origin}/v1`;
    this.deleted = new Set();
    this.form = null;
    this.rows = new Map();
    this.body = root.querySelector("tbody");
    root.querySelector("#keys-base").textContent = this.base;
    this.filters = root.querySelector("#keys-filters");
    const address = readAddress();
    this.view = rules.viewOf(address);
    this.#wire();
    this.draw();
    this.#listen();
    if ("new" in address) {
      writeAddress(rules.addressOf(this.view), { replace: true });
      if (this.mayChange) this.edit(null);
    }
  }

  setProviders(list) {
    this.providers = list;
    this.names = new Map(list.map((provider) => [provider.id, provider.name]));
    const select = this.root.querySelector("[name=provider]");
    const options = list.map((provider) => h("option", { value: provider.id }, `May use ${provider.name}`));
    select.replaceChildren(select.options[0], ...options);
    if (this.view) select.value = this.view.provider;
  }

  // -- what the person does

  #wire() {
    const { root, filters } = this;
    const find = (name) => root.querySelector(name);
    for (const id of ["#keys-new", "#keys-empty-new"]) find(id)?.addEventListener("click", () => this.edit(null));
    find("#keys-connect").addEventListener("click", () => this.#connect(null));
    for (const id of ["#keys-clear", "#keys-empty-clear"]) find(id).addEventListener("click", () => this.#look({ q: "", provider: "" }));
    const typed = debounce(() => this.#look({ q: filters.elements.q.value.trim() }), 300);
    filters.elements.q.addEventListener("input", typed);
    filters.elements.provider.addEventListener("change", () => this.#look({ provider: filters.elements.provider.value }));
    filters.addEventListener("submit", (event) => {
      event.preventDefault();
      typed.cancel();
      this.#look({ q: filters.elements.q.value.trim() });
    });
    for (const head of root.querySelectorAll("th[data-sort]")) head.firstElementChild.addEventListener("click", () => this.#sort(head.dataset.sort));
    for (const button of root.querySelectorAll("[data-page]")) button.addEventListener("click", () => this.#turn(button.dataset.page));
    onAddress((address) => {
      this.view = rules.viewOf(address);
      filters.elements.q.value = this.view.q;
      this.draw();
    });
  }

  #look(change) {
    this.view = { ...this.view, page: 1, ...change };
    writeAddress(rules.addressOf(this.view));
    this.draw();
  }

  #sort(column) {
    const again = this.view.sort === column;
    const dir = again ? (this.view.dir === "asc" ? "desc" : "asc") : rules.SORTS[column];
    this.#look({ sort: column, dir });
  }

  #turn(to) {
    const { page, pages } = this.shown;
    this.#look({ page: { first: 1, prev: page - 1, next: page + 1, last: pages }[to] });
  }

  edit(key) {
    if (this.form) return;
    this.form = new KeyForm(this.providers, key, this.defaults, (answer) => {
      const { key: text, ...stored } = answer;
      this.put(stored);
      if (text) this.#created(answer);
      else toast(`Key “${stored.name}” saved.`, "success");
    });
    this.form.closed = () => { this.form = null; };
    this.form.show();
  }

  #created(made) {
    const { endpoints, providersPage } = this.root.dataset;
    new CreatedDialog(made, { base: this.base, endpoints, providersPage }).show();
  }

  #connect(key) {
    new ConnectDialog(key, this.offered, { base: this.base, endpoints: this.root.dataset.endpoints }).show();
  }

  async #remove(key, button) {
    const used = key.last_used_at ? `It was last used ${age(key.last_used_at)}.` : "It was never used.";
    const agreed = await confirm({
      title: `Delete the key “${key.name}” (${key.key_preview})?`,
      text: `${used} This cannot be undone.`,
      affects: ["From now on every request with it is refused with 401.", "Its requests stay in the log under its name."],
    });
    if (!agreed) return;
    try {
      await busy(button, api("DELETE", `${ADDRESS}/${key.id}`));
      this.drop(key.id);
      toast(`Key “${key.name}” deleted.`, "success");
    } catch (problem) {
      if (problem.status === 404) this.drop(key.id);
      toast(problem.message, "error");
    }
  }

  // -- what others do

  #listen() {
    let timer = 0;
    const changed = new Set();
    let all = false;
    let providers = false;
    const read = async () => {
      timer = 0;
      const ids = [...changed];
      // One by one a key that is deleted meanwhile is a 404, so that a short list is read as a whole.
      const [whole, names] = [all || ids.length > SEVERAL || this.keys.size <= LARGE, providers];
      changed.clear();
      all = providers = false;
      if (names) this.setProviders(await api("GET", "/api/providers"));
      if (whole) await this.readAll();
      else await Promise.all(ids.map((id) => this.#read(id)));
      this.draw();
    };
    const soon = () => { timer ||= setTimeout(() => read().catch((problem) => problem.name === "ApiError" || console.error(problem)), GATHER); };
    on("config.changed", ({ metadata }) => {
      if (metadata.kind === "virtual_key" && metadata.action === "deleted" && metadata.id) return this.#gone(metadata.id);
      if (metadata.kind === "virtual_key") metadata.id ? changed.add(metadata.id) : (all = true);
      // A deleted provider leaves the lists of keys as well.
      else if (metadata.kind === "provider") all = providers = true;
      else return;
      soon();
    });
    const everything = () => {
      all = true;
      soon();
    };
    onGap(everything);
    every(POLL, () => (this.keys.size > LARGE ? Promise.all(this.shown.rows.map((key) => this.#read(key.id))) : everything()));
    every(TICK, () => this.#tick());
  }

  async readAll() {
    const list = await api("GET", ADDRESS);
    this.keys = new Map(list.filter((key) => !this.deleted.has(key.id)).map((key) => [key.id, key]));
    if (this.form?.key) this.#told(this.keys.get(this.form.key.id) || null);
  }

  async #read(id) {
    try {
      const key = await api("GET", `${ADDRESS}/${id}`);
      this.put(key);
      if (this.form?.key?.id === id) this.#told(key);
    } catch (problem) {
      if (problem.status !== 404) throw problem;
      this.#gone(id);
    }
  }

  #gone(id) {
    this.drop(id);
    if (this.form?.key?.id === id) this.#told(null);
  }

  #told(fresh) {
    const shape = (key) => key && JSON.stringify([key.name, key.allowed_providers, key.strip_reasoning, ...limits.FIELDS.map((name) => key[name])]);
    const saving = fresh && this.form.send.disabled;
    if (!saving && shape(fresh) !== shape(this.form.key)) this.form.changedElsewhere(fresh);
  }

  put(key) {
    if (this.deleted.has(key.id)) return;
    // Newest first, as the API lists them.
    if (this.keys.has(key.id)) this.keys.set(key.id, key);
    else this.keys = new Map([[key.id, key], ...this.keys]);
    this.draw();
  }

  drop(id) {
    // An answer that was under way before it was deleted must not bring it back.
    this.deleted.add(id);
    this.keys.delete(id);
    this.draw();
  }

  // -- what is seen

  draw() {
    const { root, view, filters } = this;
    const shown = rules.show([...this.keys.values()], view);
    this.shown = shown;
    const find = (name) => root.querySelector(name);
    find("#keys-count").textContent = many(this.keys.size, "virtual key");
    if (document.activeElement !== filters.elements.q) filters.elements.q.value = view.q;
    filters.elements.provider.value = view.provider;
    const filtered = Boolean(view.q || view.provider);
    find("#keys-clear").hidden = !filtered;
    find("[data-empty=none]").hidden = this.keys.size > 0;
    filters.hidden = this.keys.size === 0;
    find("[data-empty=match]").hidden = this.keys.size === 0 || shown.found > 0;
    find("#keys-table").hidden = shown.found === 0;
    for (const head of root.querySelectorAll("th[data-sort]")) {
      const active = head.dataset.sort === view.sort;
      head.setAttribute("aria-sort", active ? { asc: "ascending", desc: "descending" }[view.dir] : "none");
    }
    this.#drawRows(shown.rows);
    this.#drawPages(shown);
  }

  #drawRows(keys) {
    const rows = keys.map((key) => this.#row(key));
    // Rows that stay where they are keep the keyboard's place.
    const now = [...this.body.children];
    if (rows.length !== now.length || rows.some((row, at) => row !== now[at])) this.body.replaceChildren(...rows);
    this.rows = new Map(keys.map((key, at) => [key.id, { key, row: rows[at], shape: rows[at].mhShape }]));
  }

  #drawPages({ found, pages, page }) {
    const nav = this.root.querySelector("#keys-pages");
    nav.hidden = pages === 1;
    const first = (page - 1) * rules.PER_PAGE + 1;
    nav.querySelector("#keys-page").textContent = `${first}–${Math.min(found, first + rules.PER_PAGE - 1)} of ${exact(found)}`;
    for (const button of nav.querySelectorAll("[data-page]")) {
      button.disabled = ["first", "prev"].includes(button.dataset.page) ? page === 1 : page === pages;
    }
  }

  #row(key) {
    const names = key.allowed_providers?.map((id) => this.names.get(id)).filter(Boolean) ?? null;
    const shape = JSON.stringify([key, names]);
    const known = this.rows.get(key.id);
    if (known?.shape === shape) return known.row;
    const cells = [
      h("td", { class: "mh-keys-name" }, h("span", {}, key.name), key.owner_username && h("span", { class: "mh-why" }, key.owner_username), key.strip_reasoning && h("span", { class: "mh-chip", dataset: { tone: "muted" } }, "reasoning stripped")),
      h("td", {}, this.#preview(key)),
      h("td", {}, this.#access(names)),
      ...limits.cells(key, this.defaults),
      h("td", {}, this.#time(key.created_at)),
      h("td", { class: "mh-num", title: exact(key.tokens_used) }, number(key.tokens_used)),
      h("td", {}, key.last_used_at ? this.#time(key.last_used_at) : h("span", { class: "mh-why" }, "never")),
      this.mayChange && h("td", { class: "mh-keys-actions" }, this.#actions(key)),
    ].filter(Boolean);
    const row = known?.row ?? h("tr", { dataset: { key: key.id } });
    const focused = row.contains(document.activeElement) ? document.activeElement.dataset.do : "";
    row.replaceChildren(...cells);
    row.mhShape = shape;
    if (focused) row.querySelector(`[data-do=${focused}]`).focus();
    return row;
  }

  #preview(key) {
    const connect = () => this.#connect(this.keys.get(key.id) || key);
    const label = `${key.key_preview}: connect a client with ${key.name}`;
    return h("button", { type: "button", class: "mh-keys-preview", dataset: { do: "connect" }, title: "Connect a client", "aria-label": label, on: { click: connect } }, key.key_preview);
  }

  #access(names) {
    if (names === null) return h("span", { class: "mh-why" }, "every provider");
    if (!names.length) return h("span", { class: "mh-chip", dataset: { tone: "bad" }, title: "Its providers are gone: every request is refused" }, "none");
    const more = names.length - NAMES;
    return h("span", { title: names.join(", ") }, names.slice(0, NAMES).join(", "), more > 0 && h("span", { class: "mh-why" }, ` and ${more} more`));
  }

  #time(iso) {
    return h("time", { datetime: iso, title: instant(iso) }, age(iso));
  }

  #actions(key) {
    const button = (what, label, fn) => {
      const made = h("button", { type: "button", class: "mh-btn mh-btn-quiet", dataset: { do: what }, "aria-label": `${label} ${key.name}` }, label);
      made.addEventListener("click", () => fn(made));
      return made;
    };
    return [button("edit", "Edit", () => this.edit(this.keys.get(key.id) || key)), button("delete", "Delete", (made) => this.#remove(key, made))];
  }

  #tick() {
    for (const time of this.body.querySelectorAll("time")) time.textContent = age(time.getAttribute("datetime"));
  }
}

const root = document.getElementById("keys");
if (root) new KeysPage(root);
