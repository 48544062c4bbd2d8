// Reordering the rows of a list by its handles: mouse, touch and keyboard. The moved row itself never leaves its place
// in the document, its neighbours go around it: a row that was taken out would lose focus and pointer.

const EDGE = 60; // px from the edge of the window within which it scrolls
const SCROLL = 12; // px per frame
const THRESHOLD = 4; // px before a press becomes a drag

const rowsOf = (list) => [...list.children];

/** Puts *row* at *index* by moving the others. */
export function place(row, index) {
  const list = row.parentElement;
  const others = rowsOf(list).filter((one) => one !== row);
  arrange(list, [...others.slice(0, index), row, ...others.slice(index)], row);
}

/** Brings the children of *list* into the order of *rows*; *still* (or the focused one) is not touched. */
export function arrange(list, rows, still = null) {
  const current = rowsOf(list);
  if (rows.length === current.length && rows.every((row, index) => row === current[index])) return;
  const pivot = still ?? rows.find((row) => row.contains(document.activeElement)) ?? null;
  const at = rows.indexOf(pivot);
  for (const row of current) if (!rows.includes(row)) row.remove();
  if (at < 0) {
    list.append(...rows);
    return;
  }
  pivot.before(...rows.slice(0, at));
  pivot.after(...rows.slice(at + 1));
}

/**
 * *root* holds the lists; *hooks*: handle (selector), may(handle), lifted(row, keyboard), moved(row, index, keyboard),
 * dropped(row, keyboard), cancelled(row). Only one row at a time is lifted. Returns {lifted(), cancel()}.
 */
export function reorder(root, hooks) {
  let held = null;

  const lift = (handle, more) => {
    const row = handle.closest("[data-id]");
    const list = row.parentElement;
    held = { handle, row, list, before: rowsOf(list), ...more };
    row.classList.add("mh-lifted");
    handle.setAttribute("aria-pressed", "true");
    hooks.lifted(row, held.keyboard);
  };
  const settle = () => {
    const { row, handle } = held;
    cancelAnimationFrame(held.frame);
    row.classList.remove("mh-lifted");
    row.style.transform = "";
    handle.setAttribute("aria-pressed", "false");
    held = null;
    return row;
  };
  const drop = () => {
    const { keyboard } = held;
    hooks.dropped(settle(), keyboard);
  };
  const cancel = () => {
    if (!held) return;
    arrange(held.list, held.before.filter((row) => row.parentElement === held.list), held.row);
    hooks.cancelled(settle());
  };
  const move = (index) => {
    const rows = rowsOf(held.list);
    const to = Math.max(0, Math.min(rows.length - 1, index));
    if (to !== rows.indexOf(held.row)) place(held.row, to);
    hooks.moved(held.row, to, held.keyboard);
  };

  keyboard(root, hooks, { held: () => held, lift, drop, cancel, move });
  pointer(root, hooks, { held: () => held, lift, drop, cancel });
  return { lifted: () => held?.row ?? null, cancel };
}

function keyboard(root, hooks, { held, lift, drop, cancel, move }) {
  root.addEventListener("keydown", (event) => {
    const handle = event.target.closest(hooks.handle);
    if (!handle || event.ctrlKey || event.metaKey || event.altKey) return;
    const now = held();
    const mine = now && now.keyboard && now.handle === handle;
    const at = mine ? rowsOf(now.list).indexOf(now.row) : 0;
    const steps = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: mine ? now.list.children.length - 1 : 0 };
    if (event.key === " " || event.key === "Enter") {
      if (mine) drop();
      else if (!now && hooks.may(handle)) lift(handle, { keyboard: true });
    } else if (mine && event.key in steps) move(steps[event.key]);
    else if (mine && event.key === "Escape") cancel();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  // Leaving the card puts the row back; its notice may be reached, and another window may be used in between.
  root.addEventListener("focusout", (event) => {
    const now = held();
    const to = event.relatedTarget;
    if (!now || !now.keyboard || !to || to === now.handle || to.closest("[data-notice]")) return;
    cancel();
  });
}

function pointer(root, hooks, { held, lift, drop, cancel }) {
  let press = null;
  const follow = () => {
    const now = held();
    const box = now.list.getBoundingClientRect();
    const size = now.row.offsetHeight;
    const y = Math.max(0, Math.min(box.height - size, now.y - now.grab - box.top));
    // A neighbour gives way once the edge that comes towards it has passed its middle.
    const half = (row) => row.offsetTop + row.offsetHeight / 2;
    let passed = false;
    for (let next; (next = now.row.nextElementSibling) && y + size > half(next); passed = true) now.row.before(next);
    for (let last; (last = now.row.previousElementSibling) && y < half(last); passed = true) now.row.after(last);
    now.row.style.transform = `translateY(${y - now.row.offsetTop}px)`;
    if (passed) hooks.moved(now.row, rowsOf(now.list).indexOf(now.row), false);
  };
  const scroll = () => {
    const now = held();
    if (!now) return;
    const step = now.y < EDGE ? -SCROLL : now.y > window.innerHeight - EDGE ? SCROLL : 0;
    if (step) {
      window.scrollBy(0, step);
      follow();
    }
    now.frame = requestAnimationFrame(scroll);
  };
  root.addEventListener("pointerdown", (event) => {
    const handle = event.target.closest(hooks.handle);
    if (!handle || event.button !== 0 || !event.isPrimary || held() || !hooks.may(handle)) return;
    press = { handle, id: event.pointerId, y: event.clientY };
    handle.setPointerCapture(event.pointerId);
  });
  root.addEventListener("pointermove", (event) => {
    if (!press || event.pointerId !== press.id) return;
    if (!held()) {
      if (Math.abs(event.clientY - press.y) < THRESHOLD) return;
      const row = press.handle.closest("[data-id]");
      lift(press.handle, { keyboard: false, y: press.y, grab: press.y - row.getBoundingClientRect().top });
      held().frame = requestAnimationFrame(scroll);
    }
    held().y = event.clientY;
    follow();
  });
  const end = (finish) => (event) => {
    if (!press || event.pointerId !== press.id) return;
    press = null;
    if (held() && !held().keyboard) finish();
  };
  root.addEventListener("pointerup", end(drop));
  root.addEventListener("pointercancel", end(cancel));
  root.addEventListener("lostpointercapture", end(cancel));
  window.addEventListener(
    "keydown",
    (event) => {
      if (event.key !== "Escape" || !press || !held()) return;
      press = null;
      cancel();
      event.stopPropagation();
      event.preventDefault();
    },
    true,
  );
}
