// The usage pills of the sidebar: a line per provider that reports what is left.
import { busy } from "../api.js";
import { onQuotas, start } from "../quotas.js";
import { h, recall, remember } from "../ui.js";
import { bar } from "./bar.js";
import { brief, reports } from "./reading.js";

const HIDDEN = "sidebarQuotaDisabled";
const WORST = { bad: 0, warn: 1, good: 2 };

/** The readings that report, those that need somebody first. */
export function shown(quotas) {
  const found = quotas.filter(reports).map((quota) => ({ quota, said: brief(quota) }));
  return found.sort((one, other) => WORST[one.said.tone] - WORST[other.said.tone] || one.quota.provider_name.localeCompare(other.quota.provider_name));
}

function line({ quota, said }, look) {
  return h(
    "li",
    {},
    h(
      "button",
      { type: "button", class: "mh-usage-line", title: said.title, dataset: { id: quota.provider_id }, on: { click: () => look(quota) } },
      h("span", { class: "mh-usage-name" }, quota.provider_name),
      h("span", { class: "mh-usage-figure", dataset: { tone: said.tone } }, said.text),
      said.resets && h("span", { class: "mh-usage-reset" }, said.resets),
      bar(said.used, said.tone),
    ),
  );
}

/** Fills *place*, and keeps it filled. */
export function pills(place) {
  if (!place) return;
  const mayRefresh = "mayRefresh" in place.dataset;
  const icon = (name) => h("span", { class: "material-symbols-outlined", "aria-hidden": "true" }, name);
  const again = mayRefresh && h("button", { type: "button", "aria-label": "Refresh the usage", title: "Ask the providers now" }, icon("refresh"));
  const fold = h("button", { type: "button", "aria-controls": "mh-usage-lines" });
  const list = h("ul", { id: "mh-usage-lines" });
  place.append(h("div", { class: "mh-usage-head" }, h("span", {}, "Usage"), again, fold), list);
  const look = async (quota) => {
    const { showUsage } = await import("./usage.js");
    showUsage({ id: quota.provider_id, name: quota.provider_name }, { mayRefresh });
  };
  const folded = () => recall(HIDDEN, false) === true;
  const follow = () => {
    list.hidden = folded();
    fold.setAttribute("aria-expanded", String(!folded()));
    fold.setAttribute("aria-label", folded() ? "Show the usage" : "Hide the usage");
    fold.title = fold.getAttribute("aria-label");
    fold.replaceChildren(icon(folded() ? "visibility" : "visibility_off"));
    if (again) again.hidden = folded();
  };
  fold.addEventListener("click", () => {
    remember(HIDDEN, !folded());
    follow();
  });
  window.addEventListener("storage", (event) => event.key === `mh-${HIDDEN}` && follow());
  if (again) again.addEventListener("click", () => busy(again, import("./usage.js").then(({ refreshed }) => refreshed())));
  let mark = "";
  onQuotas((quotas) => {
    const found = shown(quotas);
    place.hidden = !found.length;
    const fresh = JSON.stringify(found);
    if (fresh === mark) return;
    mark = fresh;
    const at = list.contains(document.activeElement) ? document.activeElement.dataset.id : "";
    list.replaceChildren(...found.map((one) => line(one, look)));
    if (at) list.querySelector(`[data-id="${at}"]`)?.focus(); // the keyboard stays where it is
  });
  follow();
  start();
}
