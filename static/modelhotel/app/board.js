// The failover board: groups as cards whose members are dragged into the order in which they are asked.
import { busy } from "./api.js";
import { onStatus } from "./circuits.js";
import { copy } from "./copy.js";
import { confirm } from "./dialog.js";
import { age, instant } from "./format.js";
import { every, on, onGap, state } from "./live.js";
import { toast } from "./toast.js";
import { manageProviders } from "./board/cascades.js";
import { editGroup } from "./board/editor.js";
import { Moves } from "./board/moves.js";
import * as rules from "./board/rules.js";
import { many, Selection } from "./board/selection.js";
import { Store } from "./board/store.js";
import { View } from "./board/view.js";

const POLL = 15_000; // ms
/** Events of one moment are answered by one reading; the next one comes no sooner than this, in ms. */
const GATHER = 50;
const SPACING = 300;
/** Changed groups above which one list is cheaper than each by itself. */
const SEVERAL = 5;

/** Calls *fn* soon and, while it is called for again and again, once per SPACING; never two at a time. */
function gathered(fn) {
  let timer = 0;
  let running = false;
  let wanted = false;
  const run = async () => {
    timer = 0;
    running = true;
    wanted = false;
    try {
      await fn();
    } catch (problem) {
      // The last good content stays; the next event or poll reads again.
      if (problem.name !== "ApiError") console.error(problem);
    }
    running = false;
    if (wanted) timer = setTimeout(run, SPACING);
  };
  return () => {
    wanted = true;
    if (!timer && !running) timer = setTimeout(run, GATHER);
  };
}

export class Board {
  constructor(root) {
    this.root = root;
    this.mayChange = root.hasAttribute("data-may-change");
    this.moving = new Set();
    this.voice = root.querySelector("#board-voice");
    const first = JSON.parse(document.getElementById("board-data").textContent);
    this.store = new Store(first, {
      group: (id) => this.#changed(id),
      list: () => this.listed(),
      circuits: () => this.#circuits(),
      foreign: (id, fresh, mine) => this.moves.foreign(id, fresh, mine),
    });
    this.view = new View(this, root, (shown) => this.#filtered(shown));
    this.moves = new Moves(this, this.view.list);
    this.selection = new Selection(this);
    this.listed();
    this.#listen();
    this.#buttons();
  }

  cardOf(element) {
    return this.view.cards.get(element.closest("[data-group]").dataset.group);
  }

  /** Told to screen readers; the same words again are read again. */
  say(text) {
    this.voice.textContent = this.voice.textContent === text ? `${text} ` : text;
  }

  #listen() {
    const changed = new Set();
    let all = false;
    const groups = gathered(async () => {
      const wanted = [...changed];
      const list = all || wanted.length > SEVERAL;
      changed.clear();
      all = false;
      if (list) await this.store.reload();
      else await Promise.all(wanted.map((id) => this.store.refresh(id)));
    });
    const everything = () => {
      all = true;
      groups();
    };
    on("config.changed", ({ metadata }) => {
      const { kind, id, action } = metadata;
      if (kind === "failover_group" && id && action === "deleted") {
        changed.delete(id);
        return this.store.gone(id);
      }
      if (kind === "failover_group" && id) changed.add(id);
      else if (["failover_group", "provider", "model"].includes(kind)) all = true;
      else return undefined;
      return groups();
    });
    onStatus((found) => this.store.status(found)); // the shell asks for it, for the badge of the navigation too
    onGap(everything);
    every(POLL, () => state() === "live" || everything());
    setInterval(() => document.hidden || this.#tick(), 1000);
    // The page came without token totals, and something may have happened before the stream was open.
    everything();
  }

  #tick() {
    const now = this.store.now();
    for (const card of this.moving) if (!card.tick(now)) this.moving.delete(card);
    this.#synced();
  }

  /** Draws what of *card* depends on time and circuits, and remembers whether that goes on by itself. */
  tick(card) {
    if (card.tick(this.store.now())) this.moving.add(card);
    else this.moving.delete(card);
  }

  #circuits() {
    for (const card of this.view.cards.values()) if (card.filled) this.tick(card);
  }

  #changed(id) {
    const card = this.view.cards.get(id);
    const group = this.store.get(id);
    // A lifted row is not moved under the finger; the drop looks at what the store holds by then.
    if (!card || !group || this.moves.card === card) return;
    card.show(group);
    this.tick(card);
    this.#sums();
  }

  /** Groups came, went or were renamed. */
  listed() {
    if (!this.moves || this.moves.mayDraw()) this.view.layout();
    this.#sums();
  }

  /** Saves and tells what was refused. */
  async save(id, patch) {
    try {
      await this.store.save(id, patch);
    } catch (problem) {
      const card = this.view.cards.get(id);
      if (card) this.moves.quiet(card);
      toast(problem.message, "error");
    }
  }

  toggle(id, uuid, to) {
    const group = this.store.get(id);
    const entry = group.entries.find((one) => one.model_uuid === uuid);
    if (!to && !rules.mayLeave(group, entry)) {
      toast(rules.TOO_FEW, "warning");
      return;
    }
    this.moves.quiet(this.view.cards.get(id));
    this.save(id, { entry_enabled: rules.toggleMap(group, (one) => one === entry, to) });
  }

  power(id) {
    this.moves.quiet(this.view.cards.get(id));
    this.save(id, { group_enabled: !this.store.get(id).group_enabled });
  }

  async resetCircuit(entry, button) {
    try {
      const done = await busy(button, this.store.resetProvider(entry.provider_id));
      if (done.reset) toast(`${entry.provider_name} reset, back in rotation`, "success");
      else toast(`Nothing to reset: no circuit of ${entry.provider_name} is open`, "info");
    } catch (problem) {
      toast(`Circuit breaker not reset: ${problem.message}`, "error");
    }
  }

  async copyName(card) {
    const name = `hotel/${card.group.display_model}`;
    if (await copy(name, null)) toast(`Copied ${name}`, "success");
    else toast(`${name} could not be copied: the browser gives no clipboard`, "error");
  }

  edit(id) {
    return editGroup(this, id ? this.store.get(id) : null);
  }

  /** Asks, deletes and tells. True when the group is gone. */
  async remove(id) {
    const group = this.store.get(id);
    const name = `hotel/${group.display_model}`;
    const affects = [`Requests for ${name} are refused at once.`, "Its models and their providers stay."];
    if (group.auto_created) affects.push("The next sync makes it again while two models share this name.");
    if (!(await confirm({ title: `Delete ${name}?`, affects, action: "Delete", danger: true }))) return false;
    try {
      await this.store.remove(id);
      toast(`${name} deleted`, "success");
      return true;
    } catch (problem) {
      toast(problem.message, "error");
      return false;
    }
  }

  async sync() {
    const names = () => this.store.list().map((group) => group.display_model);
    const before = names();
    try {
      const body = await this.store.sync();
      await this.store.reload();
      for (const [text, severity] of rules.syncReport(body, before, names())) toast(text, severity);
    } catch (problem) {
      toast(problem.message, "error");
    }
  }

  #buttons() {
    const click = (id, act) => {
      const button = this.root.querySelector(`#${id}`);
      button?.addEventListener("click", () => act(button));
    };
    const running = (act) => (button) => busy(button, act());
    // What opens a dialog keeps its button enabled: focus has to find back to it.
    const opening = (act) => async (button) => {
      if (button.getAttribute("aria-busy")) return;
      button.setAttribute("aria-busy", "true");
      await act();
      button.removeAttribute("aria-busy");
    };
    click("board-sync", running(() => this.sync()));
    click("board-empty-sync", running(() => this.sync()));
    click("board-new", opening(() => this.edit(null)));
    click("board-empty-new", opening(() => this.edit(null)));
    click("board-providers", opening(() => manageProviders(this)));
    click("board-clear", () => this.view.clear());
    click("board-empty-clear", () => this.view.clear());
  }

  // What stands around the cards.
  #filtered(shown) {
    const { root, view } = this;
    const { origin, provider, q } = view.filters;
    let empty = "";
    if (!this.store.groups.size) empty = "none";
    else if (!shown) empty = ["auto", "custom"].includes(origin) && !provider && !q ? origin : "match";
    for (const one of root.querySelectorAll("[data-empty]")) one.hidden = one.dataset.empty !== empty;
    const bar = root.querySelector("#board-provider");
    bar.hidden = !provider || !shown;
    view.form.hidden = empty === "none";
    const name = view.providerName();
    root.querySelector("#board-provider-text").textContent = `${many(shown, "group")} with ${name} entries`;
    for (const button of bar.querySelectorAll("button")) button.textContent = `${button.dataset.word} all ${name}`;
    this.selection?.show();
  }

  #sums() {
    const groups = this.store.list();
    const enabled = groups.filter((group) => group.group_enabled).length;
    const disabled = groups.length - enabled;
    this.root.querySelector("#board-count").textContent = many(groups.length, "failover group");
    const badge = this.root.querySelector("#board-badge");
    badge.hidden = !enabled || !disabled;
    badge.textContent = `${enabled} enabled / ${disabled} disabled`;
    this.#synced();
  }

  #synced() {
    const at = this.store.lastSynced;
    const element = this.root.querySelector("#board-synced");
    const text = `Last sync: ${at ? age(at) : "never"}`;
    if (element.textContent !== text) element.textContent = text;
    if (at) element.title = instant(at);
  }
}

const root = document.getElementById("board");
if (root) {
  const board = new Board(root);
  root.dataset.ready = "true";
  // Only where nobody is somewhere else already, and where no keyboard would come up over the page.
  if (document.activeElement === document.body && !location.hash && !matchMedia("(pointer: coarse)").matches) board.view.form.elements.q.focus({ preventScroll: true });
}
