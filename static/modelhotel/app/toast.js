// Short messages at the edge of the page.
import { h, recall } from "./ui.js";

const SHOWN = 4;
const QUEUED = 20;
const AGAIN = 5000; // ms in which the same text is not repeated
const STAY = 4000; // ms; settings of the browser: toastTimeout
const ICONS = { info: "info", success: "check_circle", warning: "warning", error: "error" };
const POSITIONS = ["top-left", "top-center", "top-right", "bottom-left", "bottom-center", "bottom-right"];

const told = new Map();
const queue = [];
let unshown = 0;
let region = null;

function place() {
  if (region === null) {
    const wanted = recall("toastPosition", "bottom-center");
    const position = POSITIONS.includes(wanted) ? wanted : "bottom-center";
    region = h("div", { class: "mh-toasts", role: "log", "aria-live": "polite", "aria-label": "Messages", popover: "manual" });
    region.dataset.position = position;
    document.body.append(region);
  }
  // Shown anew it lies above a dialog that was opened in between.
  if (region.matches(":popover-open")) region.hidePopover();
  region.showPopover();
  return region;
}

function stay(severity) {
  const wanted = Number(recall("toastTimeout", STAY)) || STAY;
  const base = Math.min(15_000, Math.max(1000, wanted));
  return severity === "error" || severity === "warning" ? base * 1.5 : base;
}

function show({ text, severity }) {
  const close = () => {
    clearTimeout(timer);
    item.remove();
    next();
  };
  const item = h(
    "div",
    { class: "mh-toast", dataset: { tone: severity } },
    h("span", { class: "material-symbols-outlined", "aria-hidden": "true" }, ICONS[severity]),
    h("span", { class: "mh-visually-hidden" }, `${severity}: `),
    h("span", { class: "mh-toast-text" }, text),
    h("button", { type: "button", class: "mh-toast-close", "aria-label": "Dismiss", on: { click: () => close() } }, "×"),
  );
  let timer = setTimeout(close, stay(severity));
  // Whoever reads it must not lose it.
  item.addEventListener("pointerenter", () => clearTimeout(timer));
  item.addEventListener("pointerleave", () => {
    clearTimeout(timer);
    timer = setTimeout(close, 1500);
  });
  place().append(item);
}

function next() {
  while (region === null || region.childElementCount < SHOWN) {
    const waiting = queue.shift();
    if (waiting) show(waiting);
    else if (unshown) {
      show({ text: `${unshown} more messages were not shown.`, severity: "info" });
      unshown = 0;
    } else break;
  }
  if (region && !region.childElementCount && region.matches(":popover-open")) region.hidePopover();
}

/** Shows *text*; *severity*: info, success, warning or error. */
export function toast(text, severity = "info") {
  const at = Date.now();
  if (at - (told.get(text) ?? -Infinity) < AGAIN) return;
  for (const [known, when] of told) if (at - when >= AGAIN) told.delete(known);
  told.set(text, at);
  queue.push({ text: String(text), severity: severity in ICONS ? severity : "info" });
  // More than anybody reads: the oldest of those nobody has seen yet are only counted.
  while (queue.length > QUEUED) {
    queue.shift();
    unshown += 1;
  }
  next();
}
