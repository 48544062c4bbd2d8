// The groups and circuits the board shows, and how they are read and written. Knows nothing of the page.
import { api } from "../api.js";
import { refresh } from "../circuits.js";
import { ahead } from "../ui.js";
import { circuitsOf, orderOf, signature } from "./rules.js";

const ADDRESS = "/api/failover-groups";
/** How long an edit of ours is worth a word when somebody else changes it again, in ms. */
const MINE_MS = 5 * 60_000;

/** Whether *group* is as *patch* left it. */
function holds(patch, group) {
  if ("group_enabled" in patch && group.group_enabled !== patch.group_enabled) return false;
  const flags = patch.entry_enabled ?? {};
  if (group.entries.some((entry) => (flags[entry.model_uuid] ?? entry.enabled) !== entry.enabled)) return false;
  return !patch.priority_order || String(orderOf(group)) === String(patch.priority_order);
}

/** *group* as it will be once *patch* is accepted; what the answer says comes after it. */
function patched(group, patch) {
  const place = new Map((patch.priority_order ?? orderOf(group)).map((id, index) => [id, index]));
  const flags = patch.entry_enabled ?? {};
  return {
    ...group,
    group_enabled: patch.group_enabled ?? group.group_enabled,
    entries: group.entries
      .filter((entry) => place.has(entry.model_uuid))
      .sort((a, b) => place.get(a.model_uuid) - place.get(b.model_uuid))
      .map((entry) => ({ ...entry, enabled: flags[entry.model_uuid] ?? entry.enabled })),
  };
}

export class Store {
  /**
   * *first*: {groups, status, last_synced_at, now} of the server, now in ms. *told*: {group(id), list(), circuits(),
   * foreign(id, fresh, mine)}: mine is the patch of ours that somebody else has undone, or null. A foreign change is
   * applied by whoever is told, with :meth:`accept`.
   */
  constructor(first, told) {
    this.told = told;
    this.groups = new Map(first.groups.map((group) => [group.id, group]));
    this.lastSynced = first.last_synced_at;
    this.circuits = circuitsOf(first.status);
    this.skew = ahead(first.now);
    this.writes = new Map(); // group id -> how many of ours were begun or ended; an older answer is thrown away
    this.running = new Map(); // group id -> the last of ours, which the next one waits for
    this.again = new Set(); // groups to be read once ours are through
    this.mine = new Map(); // group id -> {patch, at}
    this.listing = null;
  }

  /** The server's time in ms: its instants are compared with this, whatever this computer's clock says. */
  now() {
    return Date.now() + this.skew;
  }

  list() {
    return [...this.groups.values()];
  }

  get(id) {
    return this.groups.get(id);
  }

  accept(group) {
    this.groups.set(group.id, group);
    this.told.group(group.id);
  }

  #count(id) {
    return this.writes.get(id) ?? 0;
  }

  #wrote(id) {
    this.writes.set(id, this.#count(id) + 1);
  }

  /** What was read: new, gone, the same, or changed by somebody else. */
  #read(id, fresh) {
    const known = this.groups.get(id);
    if (fresh && known && signature(fresh) === signature(known)) {
      this.groups.set(id, fresh);
      if (fresh.total_tokens !== known.total_tokens) this.told.group(id);
      return;
    }
    if (!fresh || !known) {
      if (fresh) this.groups.set(id, fresh);
      else this.groups.delete(id);
      return;
    }
    const own = this.mine.get(id);
    const lost = own && Date.now() - own.at < MINE_MS && !holds(own.patch, fresh);
    if (lost) this.mine.delete(id);
    this.told.foreign(id, fresh, lost ? own.patch : null);
  }

  /** Every group anew. Calls while one runs share a second one. */
  reload() {
    if (!this.listing) {
      this.listing = this.#reload().finally(() => { this.listing = null; });
      return this.listing;
    }
    this.second ??= this.listing.catch(() => {}).then(() => {
      this.second = null;
      return this.reload();
    });
    return this.second;
  }

  async #reload() {
    const before = new Map(this.writes);
    const answer = await api("GET", ADDRESS);
    this.lastSynced = answer.last_synced_at;
    const fresh = new Map(answer.groups.map((group) => [group.id, group]));
    for (const id of new Set([...this.groups.keys(), ...fresh.keys()])) {
      if (this.running.has(id)) this.again.add(id);
      else if (this.#count(id) === (before.get(id) ?? 0)) this.#read(id, fresh.get(id));
    }
    this.told.list();
  }

  /** A group that somebody else deleted. */
  gone(id) {
    if (this.running.has(id)) this.again.add(id);
    else if (this.groups.delete(id)) {
      this.#wrote(id);
      this.told.list();
    }
  }

  /** One group anew; one that is gone leaves the board. */
  async refresh(id) {
    if (this.running.has(id)) {
      this.again.add(id);
      return;
    }
    const before = this.#count(id);
    let fresh;
    try {
      fresh = await api("GET", `${ADDRESS}/${id}`);
    } catch (problem) {
      if (problem.status !== 404) throw problem;
    }
    if (this.running.has(id)) this.again.add(id);
    else if (this.#count(id) === before) {
      const known = this.groups.get(id);
      this.#read(id, fresh);
      if (!fresh || !known || fresh.display_model !== known.display_model) this.told.list();
    }
  }

  /**
   * Sends *patch* for a group; the page shows its outcome at once. Writes to one group follow one another. Throws
   * ApiError after the group was read again, so that the page shows what really is.
   */
  save(id, patch) {
    const before = this.groups.get(id);
    if (before) this.accept(patched(before, patch));
    return this.#write(id, async () => {
      const saved = await api("PUT", `${ADDRESS}/${id}`, patch);
      this.mine.set(id, { patch, at: Date.now() });
      return saved;
    });
  }

  remove(id) {
    return this.#write(id, async () => {
      await api("DELETE", `${ADDRESS}/${id}`);
      this.groups.delete(id);
      this.told.list();
    });
  }

  async create(body) {
    const made = await api("POST", ADDRESS, body);
    this.#wrote(made.id);
    this.groups.set(made.id, made);
    this.told.list();
    return made;
  }

  async #write(id, act) {
    this.#wrote(id);
    const turn = (this.running.get(id) ?? Promise.resolve()).then(act);
    const settled = turn.then(() => {}, () => {});
    this.running.set(id, settled);
    try {
      const saved = await turn;
      // A later write of ours is on its way: its outcome is shown already.
      if (saved && this.running.get(id) === settled) this.#settle(id, saved);
      return saved;
    } catch (problem) {
      this.again.add(id);
      throw problem;
    } finally {
      this.#wrote(id);
      if (this.running.get(id) === settled) {
        this.running.delete(id);
        if (this.again.delete(id) && this.groups.has(id)) await this.refresh(id).catch(() => {});
      }
    }
  }

  #settle(id, saved) {
    const renamed = this.groups.get(id)?.display_model !== saved.display_model;
    this.accept(saved);
    if (renamed) this.told.list();
  }

  /** A new answer of the status API. */
  status(found) {
    this.circuits = circuitsOf(found);
    this.told.circuits();
  }

  async resetProvider(id) {
    const done = await api("POST", `${ADDRESS}/circuit-breaker/${id}/reset`);
    await refresh();
    return done;
  }

  sync() {
    return api("POST", `${ADDRESS}/sync`);
  }

  candidates() {
    return api("GET", `${ADDRESS}/candidates`);
  }
}
