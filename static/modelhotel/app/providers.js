// The page Providers: cards that stay current, and what can be done to a provider.
import { api, busy, query } from "./api.js";
import { onStatus, start } from "./circuits.js";
import { duration } from "./format.js";
import { every, on, onGap } from "./live.js";
import { onQuotas, read, start as startQuotas } from "./quotas.js";
import { refreshed, showUsage } from "./quotas/usage.js";
import { toast } from "./toast.js";
import { ahead, debounce, onAddress, readAddress, writeAddress } from "./ui.js";
import { mayDelete, mayDisable } from "./providers/ask.js";
import { card } from "./providers/card.js";
import { ProviderForm } from "./providers/form.js";
import { Progress } from "./providers/progress.js";
import { discover, many } from "./providers/scans.js";

const LIST_EVERY = 30_000; // ms
const TOTALS_EVERY = 300_000; // ms; the totals look through the request log
const GATHER = 150; // ms in which events become one reading
const SHOWN_FOR = 30_000; // ms the outcome of a test or scan stays on its card

const ORDERS = {
  name: (a, b) => a.name.localeCompare(b.name),
  used: (a, b) => (b.last_used_at || "").localeCompare(a.last_used_at || ""),
  models: (a, b) => b.model_count - a.model_count,
};

class Page {
  constructor(root) {
    this.root = root;
    this.mayChange = root.hasAttribute("data-may-change");
    this.data = JSON.parse(document.getElementById("providers-data").textContent);
    this.kinds = new Map(this.data.kinds.map((kind) => [kind.type, kind]));
    this.rows = this.data.providers;
    this.totals = {};
    this.states = new Map();
    this.cards = new Map();
    this.quotas = new Map();
    this.viewed = new Set(); // whose usage was asked for because nothing is stored of it
    this.form = null;
    this.cardsBox = root.querySelector("#provider-cards");
    this.filters = root.querySelector("#provider-filters");
    this.#circuits(this.data.circuits);
    this.#controls();
    this.#live();
    this.#fill(readAddress());
    this.draw();
    this.#readTotals().catch(() => null);
    if (this.mayChange && readAddress().add) {
      writeAddress(this.asked(), { replace: true });
      this.add();
    }
  }

  #controls() {
    const typed = debounce(() => this.#filtered());
    this.filters.elements.q.addEventListener("input", typed);
    this.filters.elements.sort.addEventListener("change", () => this.#filtered());
    this.filters.addEventListener("submit", (event) => {
      event.preventDefault();
      typed.cancel();
      this.#filtered();
    });
    for (const id of ["#provider-clear", "#provider-empty-clear"]) {
      this.root.querySelector(id).addEventListener("click", () => {
        this.#fill({ sort: this.filters.elements.sort.value });
        this.#filtered();
        this.filters.elements.q.focus();
      });
    }
    onAddress((params) => {
      this.#fill(params);
      this.draw();
    });
    const early = ahead(this.data.now);
    this.progress = new Progress(this.root, { rows: () => this.rows, clock: () => Date.now() + early });
    if (!this.mayChange) return;
    const again = this.root.querySelector("#quotas-refresh");
    again.addEventListener("click", () => busy(again, refreshed()));
    for (const id of ["#provider-add", "#provider-first"]) this.root.querySelector(id).addEventListener("click", () => this.add());
    this.root.querySelector("#discover-all").addEventListener("click", () => this.progress.all().then(() => this.reload()).catch(quiet));
  }

  #live() {
    this.soon = debounce(() => this.reload().catch(quiet), GATHER);
    on("config.changed", ({ metadata }) => {
      if (!["provider", "model"].includes(metadata.kind)) return;
      if (this.form && this.form.provider && metadata.id === this.form.provider.id && this.form.dialog.open) this.form.foreign();
      this.soon();
    });
    on("discovery.*", () => this.soon());
    onGap(this.soon);
    // A circuit changes the health of its provider too.
    onStatus((status) => {
      if (this.#circuits(status)) this.soon();
    });
    start();
    onQuotas((quotas) => {
      this.quotas = new Map(quotas.map((quota) => [quota.provider_id, quota]));
      this.draw();
      this.#firstViews();
    });
    startQuotas();
    every(LIST_EVERY, () => this.reload());
    every(TOTALS_EVERY, () => this.#readTotals());
  }

  /** Whose quota nobody has read yet is asked once: the next reading of the gateway may be minutes away. */
  async #firstViews() {
    const fresh = this.rows.filter((row) => row.enabled && this.#kind(row)?.quota && !this.quotas.has(row.id) && !this.viewed.has(row.id));
    if (!fresh.length) return;
    for (const row of fresh) this.viewed.add(row.id);
    // A provider may take its time, and a browser has six connections for everything.
    const lane = async () => {
      for (let row = fresh.shift(); row; row = fresh.shift()) {
        await api("GET", `/api/providers/${row.id}/${this.#kind(row).quota}`).catch(quiet);
      }
    };
    await Promise.all([lane(), lane()]);
    await read().catch(quiet);
  }

  #kind(row) {
    return this.kinds.get(row.provider_type);
  }

  asked() {
    const { q, sort } = this.filters.elements;
    return { q: q.value.trim(), sort: sort.value };
  }

  #fill(params) {
    this.filters.elements.q.value = params.q || "";
    this.filters.elements.sort.value = params.sort in ORDERS ? params.sort : "";
  }

  #filtered() {
    writeAddress(this.asked());
    this.draw();
  }

  /** Takes the status of the circuits; true when it says something new. */
  #circuits(status) {
    const rows = status.providers || [];
    const mark = JSON.stringify(rows);
    const fresh = mark !== this.circuitMark;
    this.circuitMark = mark;
    this.circuits = new Map(rows.map((row) => [row.provider_id, row]));
    return fresh;
  }

  async #readTotals() {
    const rows = await api("GET", "/api/providers");
    this.totals = Object.fromEntries(rows.map((row) => [row.id, row.total_tokens]));
    this.rows = rows;
    this.draw();
  }

  async reload() {
    this.rows = await api("GET", `/api/providers${query({ totals: false })}`);
    this.progress.note(this.rows);
    this.draw();
  }

  #shown() {
    const { q, sort } = this.asked();
    const words = q.toLowerCase();
    const found = this.rows.filter((row) => !words || `${row.name}\n${row.base_url}`.toLowerCase().includes(words));
    return sort in ORDERS ? [...found].sort(ORDERS[sort]) : found;
  }

  draw() {
    const rows = this.#shown();
    const keyed = this.rows.filter((row) => row.enabled && row.key_state !== "none");
    this.readable = keyed.some((row) => row.key_state === "ok");
    this.root.querySelector("#keys-lost").hidden = this.readable || keyed.length < 2 || !keyed.some((row) => row.key_state === "unreadable");
    const kept = new Map();
    const wanted = rows.map((row) => {
      const made = this.#card(row);
      kept.set(row.id, made);
      return made.element;
    });
    this.cards = kept;
    place(this.cardsBox, wanted);
    const { q } = this.asked();
    this.root.querySelector("#provider-clear").hidden = !q;
    this.root.querySelector('[data-empty="none"]').hidden = this.rows.length > 0;
    this.root.querySelector('[data-empty="match"]').hidden = !(this.rows.length && !rows.length);
    this.filters.hidden = !this.rows.length;
    const reporting = this.rows.some((row) => row.enabled && this.#kind(row)?.quota);
    if (this.mayChange) this.root.querySelector("#quotas-refresh").hidden = !reporting;
  }

  /** The card of *row*; the one that stands where nothing of it changed. */
  #card(row) {
    const shown = { ...row, total_tokens: row.total_tokens ?? this.totals[row.id] ?? null };
    const circuits = this.circuits.get(row.id) || null;
    const state = this.states.get(row.id) || null;
    const quota = this.quotas.get(row.id) || null;
    const mark = JSON.stringify([shown, circuits, state, quota, this.readable]);
    const before = this.cards.get(row.id);
    if (before && before.mark === mark) return before;
    const acts = this.mayChange ? this.#acts() : null;
    const element = card(shown, { kind: this.#kind(row), circuits, acts, state, quota, look: (one) => this.#look(one), readable: this.readable });
    if (before) keepFocus(before.element, element);
    return { mark, element };
  }

  #acts() {
    return {
      edit: (row) => this.#open({ provider: row }),
      test: (row) => this.#run(row, "Testing the connection…", () => this.#test(row)),
      ask: (row) => this.#run(row, "Asking a model…", () => this.#ask(row)),
      discover: (row) => this.#run(row, "Asking for its models…", () => this.#discover(row, false)),
      toggle: (row, button) => this.#toggle(row, button),
      remove: (row) => this.#remove(row),
    };
  }

  #look({ id, name, provider_type: type }) {
    showUsage({ id, name }, { mayRefresh: this.mayChange, window: this.kinds.get(type)?.reserve });
  }

  add() {
    this.#open({});
  }

  #open({ provider = null }) {
    const taken = this.rows.filter((row) => !provider || row.id !== provider.id);
    this.form = new ProviderForm({ data: this.data, taken, provider, saved: (row, fresh) => this.#saved(row, fresh) });
    this.form.open();
  }

  #saved(row, fresh) {
    this.#put(row);
    toast(fresh ? `${row.name} was added.` : `${row.name} was saved.`, "success");
    this.#firstViews();
    if (fresh && this.data.discover) this.#run(row, "Asking for its models…", () => this.#discover(row, true));
  }

  #put(row) {
    const others = this.rows.filter((one) => one.id !== row.id);
    const known = others.length < this.rows.length;
    this.rows = known ? this.rows.map((one) => (one.id === row.id ? row : one)) : [row, ...others];
    this.draw();
  }

  #say(row, state) {
    if (state) this.states.set(row.id, state);
    else this.states.delete(row.id);
    this.draw();
    if (state && !state.busy) setTimeout(() => this.states.get(row.id) === state && this.#say(row, null), SHOWN_FOR);
  }

  /** Runs *work* with the card showing that it runs; *work* gives what the card says afterwards. */
  async #run(row, text, work) {
    this.#say(row, { tone: "muted", text, busy: true });
    try {
      this.#say(row, await work());
    } catch (problem) {
      const told = problem.name === "ApiError";
      this.#say(row, { tone: "bad", text: told ? problem.message : "It failed." });
      if (!told) throw problem;
      toast(problem.message, "error");
    }
  }

  async #test(row) {
    const found = await api("POST", `/api/providers/${row.id}/test`);
    const took = duration(found.duration_ms);
    if (found.success) return { tone: "good", text: `It works: ${many(found.models, "model")} in ${took}.`, ask: true };
    return { tone: "bad", text: `Failed after ${took}: ${found.error}`, error: found.error };
  }

  /** A question to one of its models, built and sent as a request of a client is. */
  async #ask(row) {
    const models = (await api("GET", `/api/models${query({ provider_id: row.id })}`)).filter((one) => one.enabled);
    const model = models.find((one) => one.modality === "chat") || models[0];
    if (!model) return { tone: "warn", text: "None of its models is enabled." };
    const found = await api("POST", `/api/models/${model.id}/test`);
    const took = duration(found.duration_ms);
    if (found.success) return { tone: "good", text: `${model.model_id} answered in ${took}.` };
    return { tone: "bad", text: `${model.model_id} failed after ${took}: ${found.error}`, error: found.error };
  }

  async #discover(row, first) {
    try {
      await discover(row, { first });
    } finally {
      await this.reload();
    }
    return null;
  }

  async #toggle(row, button) {
    const wanted = !row.enabled;
    try {
      if (!wanted && !(await mayDisable(row))) return;
      button.setAttribute("aria-checked", String(wanted));
      button.disabled = true;
      this.#put({ ...(await api("PUT", `/api/providers/${row.id}`, { enabled: wanted })) });
      toast(`${row.name} is ${wanted ? "enabled" : "disabled"}.`, "success");
    } catch (problem) {
      button.setAttribute("aria-checked", String(!wanted));
      button.disabled = false;
      toast(problem.message, "error");
    }
  }

  async #remove(row) {
    try {
      if (!(await mayDelete(row))) return;
      await api("DELETE", `/api/providers/${row.id}`);
      toast(`${row.name} was deleted.`, "success");
      this.rows = this.rows.filter((one) => one.id !== row.id);
      this.draw();
    } catch (problem) {
      toast(problem.message, "error");
    }
  }
}

function quiet() {
  // The last good content stays; the next event or poll reads again.
}

/** The children of *box* are *wanted*, in this order; those that stand right are left alone. */
function place(box, wanted) {
  const keep = new Set(wanted);
  for (const child of [...box.children]) if (!keep.has(child)) child.remove();
  wanted.forEach((element, at) => {
    if (box.children[at] !== element) box.insertBefore(element, box.children[at] || null);
  });
}

/** The keyboard stays on the same button of a card that is drawn anew. */
function keepFocus(before, fresh) {
  const active = document.activeElement;
  if (!before.contains(active)) return;
  const act = active.dataset.act;
  const selector = act ? `[data-act="${act}"]` : active.getAttribute("role") === "switch" ? '[role="switch"]' : null;
  if (!selector) return;
  requestAnimationFrame(() => fresh.isConnected && fresh.querySelector(selector)?.focus());
}

const root = document.getElementById("providers");
if (root) new Page(root);
