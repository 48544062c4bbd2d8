// Which keys a view shows, and in which order. Pure.
export const PER_PAGE = 10;
/** Column -> the direction its first click sorts in. */
export const SORTS = { name: "asc", rate_limit_rps: "desc", rate_limit_burst: "desc", rate_limit_tpm: "desc", budget_usd: "desc", created_at: "desc", tokens_used: "desc", last_used_at: "desc" };

const compareText = new Intl.Collator("en", { numeric: true, sensitivity: "base" }).compare;

/** The view that an address asks for; what makes no sense there is left out. */
export function viewOf(address) {
  const sort = address.sort in SORTS ? address.sort : "created_at";
  const dir = ["asc", "desc"].includes(address.dir) ? address.dir : SORTS[sort];
  const page = Number.parseInt(address.page, 10);
  return { q: address.q || "", provider: address.provider || "", sort, dir, page: page > 0 ? page : 1 };
}

/** The address of a view, without what is the default. */
export function addressOf({ q, provider, sort, dir, page }) {
  const plain = sort === "created_at" && dir === "desc";
  return { q, provider, sort: plain ? "" : sort, dir: dir === SORTS[sort] ? "" : dir, page: page > 1 ? page : "" };
}

function matches(key, words, provider) {
  if (provider && key.allowed_providers !== null && !key.allowed_providers.includes(provider)) return false;
  const text = `${key.name} ${key.key_preview} ${key.owner_username || ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function compare(a, b, sort, sign) {
  const [one, other] = [a[sort], b[sort]];
  // What was never used, or has no value of its own, is last in either direction.
  if ((one === null) !== (other === null)) return one === null ? 1 : -1;
  const order = sort === "name" ? compareText(one, other) : one < other ? -1 : Number(one > other);
  return sign * order;
}

/** {found, pages, page, rows}: *rows* are those of the page, which is one that exists. *keys* come newest first. */
export function show(keys, view) {
  const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
  const found = keys.filter((key) => matches(key, words, view.provider));
  const sign = view.dir === "asc" ? 1 : -1;
  // Times are whole seconds: what is equal keeps the order it came in.
  if (view.sort === "created_at" && sign > 0) found.reverse();
  found.sort((a, b) => compare(a, b, view.sort, sign));
  const pages = Math.max(1, Math.ceil(found.length / PER_PAGE));
  const page = Math.min(view.page, pages);
  return { found: found.length, pages, page, rows: found.slice((page - 1) * PER_PAGE, page * PER_PAGE) };
}
