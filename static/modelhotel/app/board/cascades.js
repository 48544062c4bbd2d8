// "Manage Providers": one switch per provider that flips its entries in all groups.
import { api } from "../api.js";
import { open } from "../dialog.js";
import { toast } from "../toast.js";
import { h } from "../ui.js";
import { providerIsOff } from "./rules.js";
import { cascade, many } from "./selection.js";

function entriesOf(groups, id) {
  return groups.filter((group) => group.entries.some((entry) => entry.provider_id === id)).length;
}

function line(board, provider, list) {
  const flip = h("button", { type: "button", role: "switch", class: "mh-switch" });
  const dot = h("span", { class: "mh-dot", "aria-hidden": "true" });
  const about = h("span", { class: "mh-why" });
  const show = () => {
    const groups = board.store.list();
    const used = entriesOf(groups, provider.id);
    const off = providerIsOff(groups, provider.id);
    flip.setAttribute("aria-checked", String(!off));
    flip.setAttribute("aria-label", `Use ${provider.name} in all groups`);
    dot.dataset.tone = off ? "muted" : "good";
    const state = off ? "off in " : "in ";
    about.textContent = used ? state + many(used, "group") : "in no group";
  };
  flip.addEventListener("click", async () => {
    const to = flip.getAttribute("aria-checked") === "false";
    const groups = board.store.list();
    if (!entriesOf(groups, provider.id)) {
      toast(`No failover group uses ${provider.name}`, "info");
      return;
    }
    const switches = [...list.querySelectorAll("button")];
    for (const one of switches) one.disabled = true;
    try {
      const { well } = await cascade(board.store, groups, (entry) => entry.provider_id === provider.id, to);
      toast(`${provider.name} ${to ? "enabled" : "disabled"} in ${many(well, "group")}`, "success");
    } finally {
      for (const one of switches) one.disabled = false;
      flip.focus();
      for (const row of list.children) row.mhShow();
    }
  });
  const disabled = !provider.enabled && h("span", { class: "mh-chip", dataset: { tone: "muted" } }, "Provider disabled");
  const row = h("li", {}, dot, h("span", { class: "mh-row-text" }, h("span", { class: "mh-member-name" }, provider.name), about), disabled, flip);
  row.mhShow = show;
  show();
  return row;
}

export async function manageProviders(board) {
  let providers;
  try {
    providers = await api("GET", "/api/providers");
  } catch (problem) {
    toast(problem.message, "error");
    return;
  }
  const list = h("ul", { class: "mh-provider-list" });
  providers.sort((a, b) => a.name.localeCompare(b.name));
  list.append(...providers.map((provider) => line(board, provider, list)));
  const dialog = h(
    "dialog",
    { class: "mh-dialog mh-board-dialog" },
    h("h2", {}, "Manage providers"),
    h("p", { class: "mh-why" }, "A switch turns the provider's entries on or off in all groups. The provider itself is not changed."),
    providers.length ? list : h("p", { class: "mh-empty" }, "No providers yet."),
    h("div", { class: "mh-dialog-actions" }, h("button", { type: "button", class: "mh-btn", "data-close": true }, "Close")),
  );
  open(dialog);
}
