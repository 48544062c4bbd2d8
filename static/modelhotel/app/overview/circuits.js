// The circuits that are not closed, while there are any.
import { onStatus, start } from "../circuits.js";
import { duration, instant } from "../format.js";
import { every } from "../live.js";
import { h } from "../ui.js";

const SHOWN = 10;

function line(circuit) {
  const open = circuit.state === "open";
  const next = circuit.next_retry_at;
  return h(
    "li",
    {},
    h("span", { class: "mh-chip", dataset: { tone: open ? "bad" : "warn" } }, circuit.state),
    h("span", { class: "mh-ov-name" }, h("strong", {}, circuit.provider), ` / ${circuit.model}`),
    h(
      "span",
      { class: "mh-ov-muted" },
      circuit.last_cause,
      circuit.skipped ? "; the whole provider is skipped" : "",
      next ? [", next try in ", h("time", { datetime: next, title: instant(next) })] : "",
    ),
  );
}

function tick(list) {
  for (const time of list.querySelectorAll("time")) {
    const ms = new Date(time.dateTime).getTime() - Date.now();
    time.textContent = ms > 0 ? duration(Math.ceil(ms / 1000) * 1000) : "a moment";
  }
}

/** *first*: the status as the page came with it. */
export function circuits(section, first) {
  const list = section.querySelector("ul");
  const none = section.querySelector("[data-none]");
  const show = (status) => {
    const found = (status.providers || []).flatMap((row) =>
      row.circuits
        .filter((circuit) => circuit.state !== "closed")
        .map((circuit) => ({ provider: row.provider_name, skipped: row.provider_open, ...circuit })),
    );
    const rest = found.length - SHOWN;
    const more = rest > 0 ? [h("li", { class: "mh-ov-muted" }, `and ${rest} more`)] : [];
    list.replaceChildren(...found.slice(0, SHOWN).map(line), ...more);
    tick(list);
    none.hidden = found.length > 0;
    section.toggleAttribute("data-dark", found.length > 0);
  };
  show(first);
  onStatus(show);
  start()?.catch(() => {}); // the next poll shows it
  every(1000, () => tick(list));
}
