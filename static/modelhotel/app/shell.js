// What every page of a signed-in person does: badges, toasts, the sign of a broken stream, ages, "/" and copying.
import "./copy.js";
import { count, onStatus, start } from "./circuits.js";
import { age, instant } from "./format.js";
import { on, onState, state } from "./live.js";
import { pills } from "./quotas/pills.js";
import { shelf } from "./shelf.js";
import { system } from "./system.js";
import { toast } from "./toast.js";
import { h } from "./ui.js";
import { version } from "./version.js";

const RECENT = 30_000; // ms; what happened before is no news, say after an hour in a hidden tab
const PATIENCE = 2500; // ms a stream may take to come back before anybody is told
const AGES = 10_000; // ms

on("*", (event) => {
  if (event.type.startsWith("request.") || event.type === "config.changed") return;
  if (Date.now() - new Date(event.timestamp).getTime() > RECENT) return;
  toast(event.message, event.severity);
});

function streamSign() {
  const place = document.getElementById("header-inner");
  if (!place) return;
  const sign = h("span", { class: "mh-live", role: "status", hidden: true });
  place.append(sign);
  let timer = 0;
  const texts = { reconnecting: "Reconnecting …", down: "No live updates" };
  const follow = (now) => {
    clearTimeout(timer);
    const show = () => {
      sign.hidden = now === "live";
      sign.dataset.state = now;
      sign.textContent = texts[now] || "";
      sign.title = now === "live" ? "" : "The event stream is away. This page asks every few seconds instead.";
    };
    if (now === "live" || !sign.hidden) show();
    else timer = setTimeout(show, PATIENCE);
  };
  onState(follow);
  follow(state());
}

function badges() {
  const link = document.querySelector("[data-nav='failover']");
  if (!link) return;
  const place = h("span", { class: "mh-nav-badges" });
  link.append(place);
  onStatus((status) => {
    const { degraded, skipped, pinned } = count(status);
    const mark = (names, tone, words) =>
      names.length > 0 && h("span", { class: "mh-nav-badge", dataset: { tone }, "aria-label": `${names.length} ${words}` }, String(names.length));
    place.replaceChildren(...[mark(degraded, "warn", "degraded"), mark(skipped, "bad", "skipped")].filter(Boolean));
    const lines = [
      degraded.length && `Providers with an open circuit that are still used: ${degraded.join(", ")}`,
      skipped.length && `Providers skipped as a whole: ${skipped.join(", ")}`,
      pinned.length && `Waiting for their quota: ${pinned.join(", ")}`,
    ].filter(Boolean);
    link.title = lines.length ? ["The numbers count providers.", ...lines].join("\n") : "";
  });
  start()?.catch(() => {}); // the next poll shows it
}

function ages() {
  for (const element of document.querySelectorAll("time[data-age][datetime]")) {
    const iso = element.getAttribute("datetime");
    const text = age(iso);
    if (element.textContent !== text) element.textContent = text;
    if (!element.title) element.title = `${instant(iso)} (${iso})`;
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof Element && event.target.closest("input, textarea, select, [contenteditable], dialog")) return;
  const filter = document.querySelector("[data-page-filter], #searchbar, #main input[type='search']");
  if (!filter) return;
  event.preventDefault();
  filter.focus();
  filter.select?.();
});

streamSign();
badges();
pills(document.getElementById("mh-usage"));
shelf(document.getElementById("mh-shelf"));
system(document.getElementById("mh-system"));
version(document.getElementById("mh-version"));
ages();
setInterval(ages, AGES);
