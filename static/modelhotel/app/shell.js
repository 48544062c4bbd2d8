// What every page of a signed-in person does: badges, toasts, the sign of a broken stream, ages, "/" and copying.
import "./copy.js";
import { count, onStatus, start as startCircuits } from "./circuits.js";
import { onCounts, start as startDiscovery } from "./discovery.js";
import { age, exact, instant, number as brief } from "./format.js";
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

/** Where the badges of an entry of the navigation are, and what one looks like; null where there is no such entry. */
function badgesOf(nav) {
  const link = document.querySelector(`[data-nav='${nav}']`);
  if (!link) return null;
  const place = h("span", { class: "mh-nav-badges" });
  link.append(place);
  const mark = (number, tone, words) =>
    number > 0 && h("span", { class: "mh-nav-badge", dataset: { tone }, "aria-label": `${exact(number)} ${words}` }, brief(number));
  return (marks, lines) => {
    place.replaceChildren(...marks.map((one) => mark(...one)).filter(Boolean));
    link.title = lines.filter(Boolean).join("\n");
  };
}

function circuits() {
  const show = badgesOf("failover");
  if (!show) return;
  onStatus((status) => {
    const { degraded, skipped, pinned } = count(status);
    const lines = [
      degraded.length && `Providers with an open circuit that are still used: ${degraded.join(", ")}`,
      skipped.length && `Providers skipped as a whole: ${skipped.join(", ")}`,
      pinned.length && `Waiting for their quota: ${pinned.join(", ")}`,
    ].filter(Boolean);
    const marks = [
      [degraded.length, "warn", "degraded"],
      [skipped.length, "bad", "skipped"],
    ];
    show(marks, lines.length ? ["The numbers count providers.", ...lines] : []);
  });
  startCircuits()?.catch(() => {}); // the next poll shows it
}

function changes() {
  const show = badgesOf("models");
  if (!show) return;
  onCounts(({ claim_count: claims, informational_unseen: news }) => {
    const marks = [
      [claims, "warn", claims === 1 ? "discrepancy" : "discrepancies"],
      [news, "info", "unread changes"],
    ];
    show(marks, [
      claims > 0 && `Models and groups that discovery took out: ${exact(claims)}`,
      news > 0 && `Changes nobody has read: ${exact(news)}`,
    ]);
    // Where the navigation is out of sight, the button that brings it back says so.
    for (const button of document.querySelectorAll(".mh-menu")) {
      button.toggleAttribute("data-dot", claims + news > 0);
      button.setAttribute("aria-description", claims + news > 0 ? "Model changes wait to be reviewed" : "");
    }
  });
  startDiscovery()?.catch(() => {}); // the next poll shows it
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
circuits();
changes();
pills(document.getElementById("mh-usage"));
shelf(document.getElementById("mh-shelf"));
system(document.getElementById("mh-system"));
version(document.getElementById("mh-version"));
ages();
setInterval(ages, AGES);
