// What the overview works out by itself: windows over a series, shares in squares, words for a curve. No page, no clock.

/** Range of the API -> how it is called and how many of its buckets make one view. */
export const RANGES = {
  "1h": { label: "1H", words: "last hour", shown: 12, bucket: 300_000 },
  "24h": { label: "1D", words: "last day", shown: 24, bucket: 3_600_000 },
  "7d": { label: "1W", words: "last week", shown: 7, bucket: 86_400_000 },
};
export const METRICS = { requests: "Requests", tokens: "Tokens", cost: "$" };

/** *value* when it is one of *known*, else *fallback*. */
export function oneOf(known, value, fallback) {
  return Object.hasOwn(known, value) ? value : fallback;
}

/**
 * The *size* points of *points* that end with the bucket *until*; the newest ones where that is null or gone.
 * *back*: how many newer points there are.
 */
export function view(points, size, until = null) {
  const at = until === null ? points.length - 1 : points.findIndex((point) => point.bucket === until);
  const last = at < 0 ? points.length - 1 : Math.max(at, Math.min(size, points.length) - 1);
  const first = Math.max(0, last - size + 1);
  return { shown: points.slice(first, last + 1), back: points.length - 1 - last, first };
}

/** The bucket the view ends with after moving by *steps* (negative: back in time); null follows the newest. */
export function moved(points, size, until, steps) {
  if (!points.length) return null;
  const { shown, first } = view(points, size, until);
  const last = first + shown.length - 1;
  const wanted = Math.min(points.length - 1, Math.max(Math.min(size, points.length) - 1, last + steps));
  return wanted === points.length - 1 ? null : points[wanted].bucket;
}

/** Shares as whole squares out of 100: largest remainder, the first of equal ones first. */
export function squares(shares) {
  const total = shares.reduce((sum, share) => sum + share, 0);
  if (!(total > 0)) return shares.map(() => 0);
  const exact = shares.map((share) => (share * 100) / total);
  const found = exact.map(Math.floor);
  const order = exact.map((value, at) => [value - found[at], at]).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
  let left = 100 - found.reduce((sum, value) => sum + value, 0);
  for (const [, at] of order) {
    if (left <= 0) break;
    found[at] += 1;
    left -= 1;
  }
  return found;
}

/** Tokens of a period in three parts that add up to the total. Cached tokens are part of the prompt. */
export function mix(stats) {
  const hit = Math.min(stats.total_tokens_cache_hit, stats.total_tokens_prompt);
  return [
    { name: "Prompt, from cache", value: hit },
    { name: "Prompt", value: stats.total_tokens_prompt - hit },
    { name: "Completion", value: stats.total_tokens_completion },
  ];
}

/** How many requests the figures of *range* are made of. */
export function requestsOf(stats, range) {
  return { "1h": stats.requests_last_1h, "24h": stats.total_requests_last_24h, "7d": stats.total_requests_last_7d }[range];
}

/** An average nobody contributed to is null, which is written as a dash; the API says 0. */
export function known(average) {
  return average > 0 ? average : null;
}

const two = (value) => String(value).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** The bucket in a few characters. Days are days of UTC, as the API counts them; the rest is the browser's zone. */
export function short(bucket, range) {
  const at = new Date(bucket);
  if (range === "7d") return `${MONTHS[at.getUTCMonth()]} ${at.getUTCDate()}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  return time === "00:00" ? `${MONTHS[at.getMonth()]} ${at.getDate()}` : time;
}

/** The same with its day, for a table or a tooltip. */
export function long(bucket, range) {
  const at = new Date(bucket);
  if (range === "7d") return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())} UTC`;
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** In a few characters with its day, where a view is longer than one. */
export function dated(bucket, range) {
  if (range === "7d") return short(bucket, range);
  const at = new Date(bucket);
  return `${MONTHS[at.getMonth()]} ${at.getDate()} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** From the first to the last bucket of a view, with no day said twice. */
export function span(first, last, range) {
  const [from, to] = [dated(first, range), dated(last, range)];
  const day = from.replace(/ [^ ]*$/, " ");
  return `${from} – ${range !== "7d" && to.startsWith(day) ? to.slice(day.length) : to}`;
}

/** One sentence for a curve that is not empty: its sum, and where it was highest. */
export function summary(points, range, series) {
  const [main] = series;
  const best = points.reduce((found, point) => (point[main.key] > found[main.key] ? point : found), points[0]);
  const parts = series.map(({ key, name, write, sum = true }) => {
    const values = points.map((point) => point[key]);
    const whole = values.reduce((total, value) => total + value, 0);
    return sum ? `${write(whole)} ${name}` : `${name} up to ${write(Math.max(...values))}`;
  });
  const when = range === "7d" ? `on ${short(best.bucket, range)} (UTC)` : `at ${dated(best.bucket, range)}`;
  const text = `${parts.join(", ")}; most ${when}.`;
  return text[0].toUpperCase() + text.slice(1);
}
