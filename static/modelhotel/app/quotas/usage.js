// The dialog with everything a provider says of its quotas.
import { busy } from "../api.js";
import { open } from "../dialog.js";
import { age, instant } from "../format.js";
import { onQuotas, refresh } from "../quotas.js";
import { toast } from "../toast.js";
import { h } from "../ui.js";
import { bar } from "./bar.js";
import { amount, exactly, percent, resets, rest, share, tone, trouble } from "./reading.js";

function moment(iso) {
  return h("time", { datetime: iso, title: instant(iso), dataset: { age: iso } }, age(iso));
}

function figure(value, unit, instead = "–") {
  return h("td", { class: "mh-num", title: exactly(value, unit) || null }, amount(value, unit) || instead);
}

function reset(window) {
  if (!window.resets_at) return "–";
  const at = instant(window.resets_at);
  return h("time", { datetime: window.resets_at, title: at }, h("span", { class: "mh-when-wide" }, `${at.slice(0, -3)}, `), resets(window));
}

function row(window) {
  const used = share(window);
  const mood = tone(window);
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, window.name),
    h("td", {}, used === null ? "–" : h("span", { class: "mh-share" }, bar(used, mood), h("span", { class: "mh-share-text", dataset: { tone: mood } }, percent(used)))),
    figure(rest(window), window.unit, used === null ? "–" : percent(Math.max(0, 100 - used))),
    h("td", {}, reset(window)),
    figure(window.used, window.unit),
    figure(window.limit, window.unit),
  );
}

function table(quota) {
  const heads = ["Window", "Used", "Left", "Resets", "Amount used", "Limit"];
  return h(
    "div",
    { class: "mh-scroll", tabindex: "0", role: "group", "aria-label": "Windows" },
    h("table", { class: "mh-table mh-usage-table" }, h("thead", {}, h("tr", {}, heads.map((text, at) => h("th", { scope: "col", class: [2, 4, 5].includes(at) ? "mh-num" : null }, text)))), h("tbody", {}, quota.windows.map(row))),
  );
}

/** *window*: what a reserve of this provider is a share of, "" where the type keeps none. */
function parts(quota, window) {
  if (!quota) return [h("p", { class: "mh-why" }, "The provider was not asked yet. It is asked every few minutes, and by Refresh.")];
  const problem = trouble(quota);
  const nothing = !quota.windows.length && !problem;
  return [
    problem && h("p", { class: "mh-problem", dataset: { tone: problem[0] } }, problem[1]),
    quota.windows.length > 0 && table(quota),
    nothing && h("p", { class: "mh-why" }, quota.plan ? "The provider names the plan of this account, but not what is used of it." : "The answer names no window."),
    quota.reserve_percent > 0 && window && h("p", { class: "mh-why" }, `${quota.reserve_percent} % of the ${window} window is kept for use outside of the gateway.`),
    h("p", { class: "mh-why" }, quota.fetched_at ? ["Read ", moment(quota.fetched_at), "."] : "Never read successfully."),
  ];
}

/** Opens it for *provider* {id, name}. *mayRefresh*: whether this person may have the providers asked. */
export function showUsage({ id, name }, { mayRefresh, window = "" }) {
  const plan = h("span", { class: "mh-chip", dataset: { tone: "info" }, hidden: true });
  const body = h("div", { class: "mh-usage-body", "aria-live": "polite" });
  const again = mayRefresh && h("button", { type: "button", class: "mh-btn mh-btn-quiet" }, "Refresh");
  const dialog = h(
    "dialog",
    { class: "mh-usage-dialog" },
    h("h2", {}, `Usage of ${name} `, plan),
    body,
    h("div", { class: "mh-dialog-actions" }, again, h("button", { type: "button", class: "mh-btn", "data-close": true, autofocus: true }, "Close")),
  );
  const draw = (quotas) => {
    const quota = quotas.find((one) => one.provider_id === id) || null;
    plan.hidden = !(quota && quota.plan);
    plan.textContent = quota && quota.plan ? quota.plan : "";
    body.replaceChildren(...parts(quota, window).filter(Boolean));
  };
  draw([]);
  const stop = onQuotas(draw);
  dialog.addEventListener("close", stop, { once: true });
  if (again) again.addEventListener("click", () => busy(again, refreshed(name)));
  open(dialog);
}

/** Has all asked; tells what failed, of *only* or of all. */
export async function refreshed(only = "") {
  try {
    const { results, refreshed: count } = await refresh();
    const failed = results.filter((one) => !one.refreshed && (!only || one.provider_name === only));
    if (failed.length === 1) toast(`${failed[0].provider_name}: ${failed[0].error}`, "error");
    else if (failed.length) toast(`${failed.length} providers could not be asked: ${failed.map((one) => one.provider_name).join(", ")}`, "error");
    else toast(only ? `${only} was asked.` : `${count} ${count === 1 ? "provider was" : "providers were"} asked.`, "success");
  } catch (problem) {
    toast(problem.message, "error");
  }
}
