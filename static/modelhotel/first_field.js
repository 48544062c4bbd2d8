"use strict";
// The first field of a form that adds something gets the focus. Django's script looks for it once, at any moment: while
// the tabs are set up all fields are hidden, and it takes the button that saves.
{
  const GIVE_UP = performance.now() + 3000; // ms
  const STEADY = 3; // frames
  const form = document.currentScript.closest("form");
  const first = form.querySelector("input:not([type=hidden], :disabled), select:not(:disabled), textarea:not(:disabled)");
  let held = 0;
  let taken = !first; // or by whoever types or clicks already

  const look = () => {
    if (taken || performance.now() > GIVE_UP) return;
    if (document.activeElement === first) held += 1;
    else {
      held = 0;
      if (first.offsetParent) first.focus();
    }
    if (held < STEADY || document.readyState !== "complete") requestAnimationFrame(look);
  };
  for (const kind of ["keydown", "pointerdown"]) {
    document.addEventListener(kind, () => (taken = true), { once: true, capture: true });
  }
  requestAnimationFrame(look);
}
