// What is asked before a provider is switched off or deleted: everything that leans on it.
import { api } from "../api.js";
import { confirm } from "../dialog.js";
import { many } from "./scans.js";

const NAMED = 8;

const left = (remaining) => (remaining === 0 ? "nobody is left to answer" : `${many(remaining, "other member")} stay${remaining === 1 ? "s" : ""}`);

function groupLine({ display_model: name, entries, remaining }) {
  return `Failover group hotel/${name}: ${many(entries, "member")} of this provider, ${left(remaining)}`;
}

/** What the groups lose with a model, one line each. *groups*: those of its dependents. */
export const lossOf = (groups) => cut(groups.map(({ display_model: name, remaining }) => `Failover group hotel/${name}: ${left(remaining)}`), "group");

function cut(lines, noun) {
  return lines.length > NAMED ? [...lines.slice(0, NAMED), `and ${many(lines.length - NAMED, noun)} more`] : lines;
}

/** True when it may be switched off; nothing is asked where nothing depends on it. */
export async function mayDisable(provider) {
  const found = await api("GET", `/api/providers/${provider.id}/dependents`);
  if (!found.enabled_models && !found.groups.length) return true;
  return confirm({
    title: `Disable ${provider.name}?`,
    text: `No request goes there until it is enabled again. Models, prices and places in groups are kept. ${many(found.groups.length, "failover group")} use${found.groups.length === 1 ? "s" : ""} this provider.`,
    affects: [`${many(found.enabled_models, "model")} will not be routed to`, ...cut(found.groups.map(groupLine), "group")],
    action: "Disable",
    danger: true,
  });
}

export async function mayDelete(provider) {
  const found = await api("GET", `/api/providers/${provider.id}/dependents`);
  const keys = found.virtual_keys.map(({ name, only }) =>
    only ? `Virtual key ${name}: may then use no provider at all` : `Virtual key ${name}: loses this provider`,
  );
  return confirm({
    title: `Delete ${provider.name}?`,
    text: "This cannot be undone. Its requests stay in the log, without its name.",
    affects: [
      `${many(found.models, "model")} with their prices and edits`,
      ...cut(found.groups.map(groupLine), "group"),
      ...cut(keys, "virtual key"),
    ],
    action: "Delete",
  });
}
