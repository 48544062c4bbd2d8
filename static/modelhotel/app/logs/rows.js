// The rows a log page holds: one per id, whoever brought it. No DOM.

export const KEPT = 1000; // rows a page holds at most
export const RUNNING = 200; // of them in flight
/** ms a row that only an event told of may be missing from an answer: another process writes its rows 5 times a second */
const GRACE = 1000;

export const running = (row) => row.state === "pending" || row.state === "streaming";
const over = (row) => row.state === "completed" || row.state === "failed";

/** Requests in flight first, then the newest. Of one millisecond: as the answer had them, which knows better. */
function newest(a, b) {
  return running(b) - running(a) || b.at - a.at;
}

export class Rows {
  /** *time*: the name of the column that holds a row's time. */
  constructor(time) {
    this.time = time;
    this.map = new Map();
    this.given = null; // ids in the order of an answer that is sorted otherwise
  }

  get size() {
    return this.map.size;
  }

  get(id) {
    return this.map.get(id);
  }

  /** A row of the API. An answer from before the end of a request does not take its end back. */
  put(row) {
    const known = this.map.get(row.id);
    const at = Date.parse(row[this.time]);
    const stale = known && over(known) && running(row);
    if (stale && known.full) return;
    if (stale) this.map.set(row.id, { ...row, at, state: known.state, status_code: known.status_code, told: known.told });
    else this.map.set(row.id, { ...row, at, full: !running(row), told: known && known.told });
  }

  /** What an event says of request *id*; false when there is no such row and *fresh* allows none. */
  tell(id, said, fresh, now) {
    const known = this.map.get(id);
    if (!known && !fresh) return false;
    if (known && over(known) && !over(said)) return true;
    const base = known || { id, at: Date.parse(fresh), [this.time]: fresh, attempts: null };
    this.map.set(id, { ...base, ...said, told: now });
    return true;
  }

  /** Requests that are over, by an event, and whose figures are not here yet. */
  unfinished() {
    return [...this.map.values()].filter((row) => over(row) && !row.full && row.told !== undefined);
  }

  /** These rows instead of all; one that an event told of since *since* (ms) stays. *sorted*: keep their order. */
  replace(list, since, sorted = false) {
    const before = this.map;
    this.map = new Map();
    for (const row of list) {
      if (before.has(row.id)) this.map.set(row.id, before.get(row.id));
      this.put(row);
    }
    if (!sorted) {
      for (const [id, row] of before) {
        if (!this.map.has(id) && row.told !== undefined && row.told >= since - GRACE) this.map.set(id, row);
      }
    }
    this.given = sorted ? list.map((row) => row.id) : null;
  }

  remove(id) {
    this.map.delete(id);
  }

  clear() {
    this.map.clear();
    this.given = null;
  }

  /** In the order shown. At most *limit* that are not in flight; what is beyond is forgotten. */
  ordered(limit = KEPT) {
    if (this.given) return this.given.map((id) => this.map.get(id)).filter(Boolean);
    const found = [...this.map.values()].sort(newest);
    let flying = 0;
    while (flying < found.length && running(found[flying])) flying += 1;
    const shownFlying = Math.min(flying, RUNNING);
    const rest = Math.max(0, Math.min(limit, KEPT - shownFlying));
    const kept = [...found.slice(0, shownFlying), ...found.slice(flying, flying + rest)];
    if (kept.length < found.length) this.map = new Map(kept.map((row) => [row.id, row]));
    return kept;
  }
}
