// The card of the first run: its steps tick themselves, and it goes when all are done or when it is dismissed.
import { api, busy } from "./api.js";
import { every, on, onGap } from "./live.js";
import { toast } from "./toast.js";
import { debounce, recall, remember } from "./ui.js";

const DISMISSED = "firstRunDismissed";
const EVERY = 15_000; // ms
// A fresh installation has short lists; once a step is done it is not asked for again.
const SOURCES = { provider: "/api/providers", model: "/api/models/cursor?limit=1", virtual_key: "/api/virtual-keys" };

const card = document.getElementById("first-run");
const open = () => [...card.querySelectorAll("[data-step][data-done='false']")];

function some(answer) {
  const list = Array.isArray(answer) ? answer : Object.values(answer).find(Array.isArray);
  return Boolean(list && list.length);
}

async function look() {
  await Promise.all(
    open().map(async (step) => {
      if (some(await api("GET", SOURCES[step.dataset.step]))) tick(step);
    }),
  );
  if (!open().length) card.hidden = true;
}

function tick(step) {
  step.dataset.done = "true";
  step.querySelector("[data-state]").textContent = "(done)";
}

async function discover(button) {
  try {
    const { discovered, results } = await busy(button, api("POST", "/api/providers/discover-all"));
    for (const result of results) if (result.error) toast(`${result.provider_name}: ${result.error}`, "error");
    if (!results.length) toast("Add a provider first.", "warning");
    else if (discovered) toast(discovered === 1 ? "1 model found" : `${discovered} models found`, "success");
  } catch (problem) {
    toast(problem.message, "error");
  }
  await look();
}

if (card && !recall(DISMISSED, false)) {
  card.hidden = false;
  const soon = debounce(look, 200);
  card.querySelector("[data-dismiss]").addEventListener("click", () => {
    remember(DISMISSED, true);
    card.hidden = true;
  });
  card.querySelector("[data-discover]")?.addEventListener("click", (event) => discover(event.currentTarget));
  on("config.changed", (event) => event.metadata?.kind in SOURCES && soon());
  on("discovery.*", soon);
  onGap(look);
  every(EVERY, () => open().length > 0 && look());
}
