// A discovery of one provider, and what it or one of all found.
import { api, query } from "../api.js";
import { open } from "../dialog.js";
import { money, number } from "../format.js";
import { h } from "../ui.js";

const SHOWN = 30; // names per section before they are only counted
const FIELDS = {
  input_price: "input price",
  output_price: "output price",
  input_price_cache: "cached input price",
  context_length: "context",
};

export const many = (count, noun) => `${number(count)} ${count === 1 ? noun : `${noun}s`}`;

function changed({ field, old, new: fresh }) {
  const show = (value) => (value === null || value === undefined ? "unknown" : field === "context_length" ? number(value) : money(value));
  return `${FIELDS[field] || field} ${show(old)} → ${show(fresh)}`;
}

function section(title, lines, tone, heading) {
  if (!lines.length) return null;
  const more = lines.length > SHOWN ? h("li", { class: "mh-why" }, `and ${lines.length - SHOWN} more`) : null;
  return h(
    "section",
    { class: "mh-found" },
    h(heading, {}, title, " ", h("span", { class: "mh-chip", dataset: { tone } }, String(lines.length))),
    h("ul", {}, lines.slice(0, SHOWN).map((line) => h("li", {}, line)), more),
  );
}

/** The sections of one scan's *diff*; *unlisted*: ids that are enabled here and were not listed. */
export function sections(diff = {}, unlisted = [], heading = "h4") {
  const ids = (name) => (diff[name] || []).map((item) => item.model_id);
  const group = (item) => `hotel/${item.display_model}`;
  return [
    ["Added", ids("added"), "good"],
    ["Came back", ids("reenabled"), "good"],
    ["Updated", (diff.updated || []).map((item) => `${item.model_id}: ${item.changes.map(changed).join(", ")}`), "info"],
    ["Removed", ids("disabled"), "warn"],
    ["Suspicious: not listed any more, kept for now", unlisted, "warn"],
    ["Failover groups changed", (diff.failover_updated_groups || []).map(group), "info"],
    ["Failover groups without enough members", (diff.failover_disabled_groups || []).map(group), "warn"],
    ["Failover groups gone", (diff.failover_deleted_groups || []).map(group), "warn"],
  ]
    .map((one) => section(...one, heading))
    .filter(Boolean);
}

function block({ name, discovered, diff, error, unlisted }, alone) {
  const parts = error ? [h("p", { class: "mh-refused" }, error)] : sections(diff, unlisted);
  const nothing = !error && !parts.length && h("p", { class: "mh-why" }, "Nothing changed.");
  return h(
    "div",
    { class: "mh-found-provider" },
    !alone && h("h3", {}, name, " ", h("span", { class: "mh-why" }, error ? "failed" : many(discovered, "model"))),
    parts,
    nothing,
  );
}

function summary(title, blocks, links) {
  const dialog = h(
    "dialog",
    { class: "mh-summary" },
    h("h2", {}, title),
    blocks,
    h(
      "div",
      { class: "mh-dialog-actions" },
      links.map(([text, href]) => h("a", { class: "mh-btn mh-btn-quiet", href }, text)),
      h("button", { type: "button", class: "mh-btn", "data-close": true, autofocus: true }, "Close"),
    ),
  );
  open(dialog);
}

async function unlistedOf(provider, answer) {
  const stored = provider.model_count + (answer.diff.added || []).length;
  if (stored <= answer.discovered) return [];
  const listed = new Set(answer.models.map((model) => model.id));
  const rows = await api("GET", `/api/models${query({ provider_id: provider.id })}`);
  return rows.filter((row) => row.enabled && !listed.has(row.id)).map((row) => row.model_id);
}

/** Lists the models of *provider* and shows what came of it. *first*: it was added a moment ago. Throws ApiError. */
export async function discover(provider, { first = false } = {}) {
  const answer = await api("POST", `/api/providers/${provider.id}/discover`);
  const unlisted = await unlistedOf(provider, answer);
  const { diff, discovered } = answer;
  const title = `${provider.name}: ${many(discovered, "model")} found`;
  const links = [["Show models", `/models/${query({ provider: provider.id })}`]];
  if (first) links.push(["Create a virtual key", "/keys/?new"]);
  summary(title, [block({ name: provider.name, discovered, diff, unlisted }, true)], links);
}

/** Enabled models of *provider* that no listing has named since *at* (ms), asked for only where fewer were listed than are stored. */
async function unlistedSince(at, provider, { discovered, diff }) {
  if (!provider || !diff || provider.model_count + (diff.added || []).length <= discovered) return [];
  const rows = await api("GET", `/api/models${query({ provider_id: provider.id })}`).catch(() => []);
  return rows.filter((row) => row.enabled && !(Date.parse(row.last_seen_at) >= at)).map((row) => row.model_id);
}

/** Those that need somebody, then those that changed, then the rest in one line. */
function ordered(found) {
  const quiet = found.filter((one) => !one.error && !sections(one.diff, one.unlisted).length);
  const told = found.filter((one) => !quiet.includes(one)).sort((one, other) => Boolean(other.error) - Boolean(one.error));
  const names = quiet.map((one) => `${one.name} (${many(one.discovered, "model")})`).join(", ");
  return [...told.map((one) => block(one, false)), quiet.length > 0 && h("div", { class: "mh-found-provider" }, h("h3", {}, "Nothing changed"), h("p", { class: "mh-why" }, names))];
}

/** Shows what a discovery of all came to. *answer*: that of the API; *rows*: the providers before; *at*: its start, in ms. */
export async function summaryOfAll(answer, rows, at) {
  const known = new Map(rows.map((row) => [row.name, row]));
  const found = await Promise.all(
    answer.results.map(async (one) => ({ ...one, name: one.provider_name, unlisted: await unlistedSince(at, known.get(one.provider_name), one) })),
  );
  const title = `${many(answer.discovered, "model")} of ${many(answer.succeeded, "provider")}` + (answer.failed ? `, ${answer.failed} failed` : "");
  summary(title, ordered(found), [["Show models", "/models/"]]);
}
