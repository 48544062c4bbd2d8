// Selected groups, and what is done to many groups at once.
import { busy } from "../api.js";
import { confirm } from "../dialog.js";
import { toast } from "../toast.js";
import * as rules from "./rules.js";

/** Writes of one action that run at the same time. */
const AT_ONCE = 4;
const NAMED = 10;

export const many = (count, noun) => (count === 1 ? `1 ${noun}` : `${count} ${noun}s`);

function firstFew(lines) {
  return lines.length > NAMED ? [...lines.slice(0, NAMED), `and ${lines.length - NAMED} more`] : lines;
}

/** Runs act(id) for each id, a few at a time: {well, failed, problems}. */
async function forEach(ids, act) {
  const queue = [...ids];
  let well = 0;
  const problems = new Set();
  const worker = async () => {
    for (let id = queue.shift(); id !== undefined; id = queue.shift()) {
      try {
        await act(id);
        well += 1;
      } catch (problem) {
        problems.add(problem.message);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return { well, failed: ids.length - well, problems: [...problems] };
}

/**
 * Flips the entries that *only* names in *groups*, with the switches of groups that fall below two active members or
 * come back: one write per group. Failures are told, and the list is read again. {well, failed}.
 */
export async function cascade(store, groups, only, to) {
  const patches = new Map();
  for (const group of groups) {
    const patch = rules.cascade(group, only, to);
    if (patch) patches.set(group.id, patch);
  }
  const done = await forEach([...patches.keys()], (id) => store.save(id, patches.get(id)));
  for (const text of done.problems) toast(text, "error");
  if (done.failed) await store.reload().catch(() => {});
  return done;
}

export class Selection {
  constructor(board) {
    this.board = board;
    this.ids = new Set();
    const click = (id, act) => {
      const button = board.root.querySelector(`#${id}`);
      button?.addEventListener("click", () => busy(button, act()));
    };
    click("bulk-enable", () => this.#toggle(true));
    click("bulk-disable", () => this.#toggle(false));
    click("bulk-delete", () => this.#delete());
    click("bulk-none", async () => this.#clear());
    click("provider-enable", () => this.#provider(true));
    click("provider-disable", () => this.#provider(false));
    this.all = board.root.querySelector("#board-all");
    this.all?.addEventListener("change", () => {
      for (const id of board.view.shown()) this.#set(id, this.all.checked);
      this.show();
    });
  }

  #set(id, to) {
    if (to) this.ids.add(id);
    else this.ids.delete(id);
  }

  choose(id, to) {
    this.#set(id, to);
    this.show();
  }

  #clear() {
    this.ids.clear();
    this.show();
    this.all.focus();
  }

  show() {
    if (!this.all) return;
    const { root, view, store } = this.board;
    for (const id of this.ids) if (!store.get(id)) this.ids.delete(id);
    const shown = view.shown();
    const here = shown.filter((id) => this.ids.has(id)).length;
    this.all.checked = shown.length > 0 && here === shown.length;
    this.all.indeterminate = here > 0 && here < shown.length;
    this.all.disabled = shown.length === 0;
    root.querySelector("#board-bulk").hidden = this.ids.size === 0;
    root.querySelector("#board-selected").textContent = `${this.ids.size} selected`;
    for (const card of view.cards.values()) if (card.check) card.check.checked = this.ids.has(card.id);
  }

  async #toggle(to) {
    const { store } = this.board;
    const groups = [...this.ids].map((id) => store.get(id)).filter(Boolean);
    if (!to) {
      const affects = firstFew(groups.map((group) => `hotel/${group.display_model} stops answering`));
      const title = `Disable all entries of ${many(groups.length, "group")}?`;
      if (!(await confirm({ title, affects, action: "Disable all", danger: true }))) return;
    }
    const { well } = await cascade(store, groups, () => true, to);
    toast(`${many(well, "group")} ${to ? "enabled" : "disabled"}`, well ? "success" : "info");
  }

  async #delete() {
    const { store } = this.board;
    const ids = [...this.ids];
    const affects = firstFew(ids.map((id) => `hotel/${store.get(id).display_model}`));
    const title = `Delete ${many(ids.length, "group")}?`;
    if (!(await confirm({ title, affects, action: "Delete all", danger: true }))) return;
    const { well, failed } = await forEach(ids, (id) => store.remove(id));
    if (failed) await store.reload().catch(() => {});
    toast(`${many(well, "group")} deleted${failed ? `, ${failed} failed` : ""}`, failed ? "error" : "success");
  }

  async #provider(to) {
    const { store, view } = this.board;
    const id = view.filters.provider;
    const { well } = await cascade(store, store.list(), (entry) => entry.provider_id === id, to);
    toast(`${view.providerName()} ${to ? "enabled" : "disabled"} in ${many(well, "group")}`, well ? "success" : "info");
  }
}
