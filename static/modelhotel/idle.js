"use strict";
// Signs out whoever has left: no key, pointer or page of this browser for as many minutes as the address of this script
// says. Tabs share the moment of the last activity, so one in use keeps the others signed in.
const idleMinutes = Number(new URL(document.currentScript.src).searchParams.get("minutes"));
document.addEventListener("DOMContentLoaded", () => {
  const limit = idleMinutes * 60_000;
  const form = document.getElementById("logout-form");
  if (!limit || !form) return;
  const KEY = "mh-active-at";
  let timer = 0;
  let own = 0; // this page's own memory, for browsers that keep no storage
  let leaving = false;

  const last = () => {
    try {
      return Math.max(own, Number(localStorage.getItem(KEY)) || 0);
    } catch {
      return own;
    }
  };
  const leave = async () => {
    if (leaving) return;
    leaving = true;
    try {
      await fetch(form.action, { method: "POST", body: new FormData(form), redirect: "manual" });
    } catch {
      leaving = false; // the gateway is away: a later look tries again
      timer = setTimeout(look, 10_000);
      return;
    }
    const back = encodeURIComponent(location.pathname + location.search);
    location.assign(`/login/?next=${back}&expired=1`);
  };
  const look = () => {
    clearTimeout(timer);
    const left = last() + limit - Date.now();
    if (left <= 0) leave();
    else timer = setTimeout(look, left);
  };
  const touched = () => {
    own = Date.now();
    try {
      localStorage.setItem(KEY, String(own));
    } catch {
      // This tab counts for itself.
    }
  };
  const note = () => {
    const now = Date.now();
    if (now - last() >= limit) look(); // back after too long, say from a closed lid
    else if (now - own >= 1000) touched();
  };
  touched();
  for (const kind of ["keydown", "pointerdown", "pointermove", "wheel", "touchstart"]) {
    document.addEventListener(kind, note, { passive: true, capture: true });
  }
  document.addEventListener("visibilitychange", look);
  look();
});
