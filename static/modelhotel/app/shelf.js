// The errors shelf: the newest failures of the last day, until somebody has seen to them.
import { api, query } from "./api.js";
import { copy } from "./copy.js";
import { age, instant } from "./format.js";
import { every, on, onGap } from "./live.js";
import { debounce, h, recall, remember } from "./ui.js";

const SHOWN = 15;
const EVERY = 15_000; // ms
const KEPT = 200; // dismissed ones this browser remembers
const SURE = 3000; // ms for the second click
const DAY = 86_400_000; // ms
const KEY = "ackedErrorKeys";

/** Whether a row of the request log is the gateway's or a provider's failure, not its client's. */
export function failed(entry) {
  if (entry.state !== "failed" && entry.state !== "completed") return false;
  if (entry.error_kind === "client_disconnect") return false;
  return entry.status_code === 0 || entry.status_code >= 500;
}

const ofRequest = (entry) => ({
  key: `REQ:${entry.id}`,
  kind: "REQ",
  at: entry.created_at,
  text: [entry.model_id, entry.status_code || "", entry.error_message || entry.error_kind || ""].filter(Boolean).join(" · "),
  link: `/requests/?id=${entry.id}`,
});

const ofLine = (line) => ({
  key: `APP:${line.id}`,
  kind: "APP",
  at: line.created_at || line.timestamp,
  text: line.message,
  // Among errors only, a line of the last hours is on the first page.
  link: `/logs/?level=error&id=${line.id}`,
});

/** What the proxy says of a request that failed with 5xx: the row of the request is on the shelf already. */
const OF_A_REQUEST = /^proxy: (all providers exhausted|provider request failed) .*\bstatus=5\d\d\b/s;

/** Failures of both logs as lines of the shelf. */
export function gathered(entries, lines) {
  return [...entries.filter(failed).map(ofRequest), ...lines.filter((line) => !OF_A_REQUEST.test(line.message)).map(ofLine)];
}

function newest(found) {
  // More than are shown, so that dismissing one brings up the next.
  return found.sort((one, other) => new Date(other.at) - new Date(one.at)).slice(0, 4 * SHOWN);
}

const KEPT_ITEMS = "mh-shelf";
const OVERLAP = 900_000; // ms; a request that began this long ago may fail only now

function kept() {
  try {
    const [at, found] = JSON.parse(sessionStorage.getItem(KEPT_ITEMS) || "[0, []]");
    return Date.now() - at < DAY ? [at, found] : [0, []];
  } catch {
    return [0, []];
  }
}

function keep(at, found) {
  try {
    sessionStorage.setItem(KEPT_ITEMS, JSON.stringify([at, found]));
  } catch {
    // The next page asks for the whole day again.
  }
}

/** What is new since *at* (ms); the whole day for 0. The first look goes to the table, later ones to the memory. */
async function news(at) {
  const from = new Date(at ? at - OVERLAP : Date.now() - DAY).toISOString();
  const lines = at ? { after: from } : { history: "true", level: "error", from, per_page: SHOWN };
  const [broken, lost, said] = await Promise.all([
    api("GET", `/api/logs/cursor${query({ status_code: "5xx", from, limit: SHOWN })}`),
    api("GET", `/api/logs/cursor${query({ status_code: "0", from, limit: SHOWN })}`),
    api("GET", `/api/logs/app${query(lines)}`),
  ]);
  const errors = (Array.isArray(said) ? said : said.entries).filter((line) => line.level === "error");
  return [[...broken.entries, ...lost.entries], errors];
}

function line(item, dismiss) {
  return h(
    "li",
    {},
    h(
      "div",
      { class: "mh-shelf-line" },
      h("b", {}, item.kind),
      h("time", { datetime: item.at, "data-age": true, title: instant(item.at) }, age(item.at)),
      h(
        "span",
        {},
        h("button", { type: "button", "aria-label": "Copy this failure", on: { click: (event) => copy(item.text, event.currentTarget) } }, "Copy"),
        h("a", { href: item.link }, "Open"),
        h("button", { type: "button", "aria-label": "Dismiss this failure", on: { click: () => dismiss([item.key]) } }, "×"),
      ),
    ),
    h("div", { class: "mh-shelf-text", title: item.text }, item.text),
  );
}

/** Fills *place*, and keeps it filled. */
export function shelf(place) {
  if (!place || "off" in place.dataset) return;
  let [at, items] = kept();
  let armed = 0;

  const clear = h("button", { type: "button" }, "Clear all");
  const title = h("span", { id: "mh-shelf-title" });
  const list = h("ul", {});
  place.setAttribute("role", "region");
  place.setAttribute("aria-labelledby", "mh-shelf-title");
  place.append(h("div", { class: "mh-shelf-head" }, title, clear), list);

  const dismiss = (keys) => {
    remember(KEY, [...recall(KEY, []), ...keys].slice(-KEPT));
    draw();
  };
  const draw = () => {
    const dismissed = new Set(recall(KEY, []));
    const now = Date.now();
    const shown = items.filter((item) => now - new Date(item.at).getTime() < DAY && !dismissed.has(item.key)).slice(0, SHOWN);
    title.textContent = shown.length === 1 ? "1 failure" : `${shown.length} failures`;
    list.replaceChildren(...shown.map((item) => line(item, dismiss)));
    place.hidden = shown.length === 0;
    return shown;
  };
  const look = async () => {
    const began = Date.now();
    const [entries, lines] = await news(at);
    const known = new Map([...items, ...gathered(entries, lines)].map((item) => [item.key, item]));
    items = newest([...known.values()]);
    at = began;
    keep(at, items);
    draw();
  };
  clear.addEventListener("click", () => {
    clearTimeout(armed);
    if (clear.dataset.sure) dismiss(draw().map((item) => item.key));
    else armed = setTimeout(calm, SURE);
    clear.dataset.sure = clear.dataset.sure ? "" : "1";
    clear.textContent = clear.dataset.sure ? "Click again" : "Clear all";
  });
  const calm = () => {
    clear.dataset.sure = "";
    clear.textContent = "Clear all";
  };
  const soon = debounce(look, 500);
  on("request.completed", (event) => event.severity === "warning" && soon());
  onGap(look);
  every(EVERY, look);
  window.addEventListener("storage", (event) => event.key === `mh-${KEY}` && draw());
  draw();
  look().catch(() => {}); // the next look shows it
}
