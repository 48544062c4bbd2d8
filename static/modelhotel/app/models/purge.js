// Deleting every disabled model that the filters show.
import { api, query } from "../api.js";
import { confirm } from "../dialog.js";

const PAGE = 200;
const MOST = 10_000; // ids one call may hold
const NAMED = 8;

async function disabled(filters) {
  const found = [];
  let cursor = "";
  do {
    const page = await api("GET", `/api/models/cursor${query({ ...filters, enabled: "false", limit: PAGE, cursor })}`);
    found.push(...page.entries);
    cursor = page.next_cursor;
  } while (cursor && found.length < MOST);
  return found.slice(0, MOST);
}

/** Asks and deletes; how many went, null when it was not wanted. *filters*: those of the API. Throws ApiError. */
export async function purge(filters) {
  const rows = await disabled(filters);
  if (!rows.length) return 0;
  const named = rows.slice(0, NAMED).map((row) => `${row.provider_name} / ${row.model_id}`);
  const agreed = await confirm({
    title: `Delete ${rows.length} disabled model${rows.length === 1 ? "" : "s"}?`,
    text: "They leave every failover group. The next discovery adds those again that their provider still offers, switched on.",
    affects: rows.length > NAMED ? [...named, `and ${rows.length - NAMED} more`] : named,
    action: `Delete ${rows.length}`,
  });
  if (!agreed) return null;
  const answer = await api("POST", "/api/models/bulk-delete", { ids: rows.map((row) => row.id) });
  return answer.deleted;
}
