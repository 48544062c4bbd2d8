// One answer of the API for everybody on this page who wants it.
import { api } from "./api.js";

/** What *path* answers: ``refresh`` asks, ``onAnswer`` listens. */
export function source(path) {
  const listeners = new Set();
  let last = null;
  let running = null;
  let next = null;

  /** Asks now. Resolves to an answer that is not older than this call. Throws ApiError. */
  function refresh() {
    if (running) {
      // The answer on its way may be older than what this call is about; all who wait share one more.
      next ??= running.catch(() => {}).then(() => {
        next = null;
        return refresh();
      });
      return next;
    }
    running = api("GET", path)
      .then((found) => {
        last = found;
        for (const fn of listeners) fn(found);
        return found;
      })
      .finally(() => { running = null; });
    return running;
  }

  /** Calls fn(answer) with every new answer, at once with one that is known. Returns what takes it back. */
  function onAnswer(fn) {
    listeners.add(fn);
    if (last) fn(last);
    return () => listeners.delete(fn);
  }

  return { refresh, onAnswer };
}
