// How numbers, times and amounts are written. Null and undefined are an en dash.
const NONE = "–";
const missing = (value) => value === null || value === undefined || value === "" || Number.isNaN(value);
const pad = (value) => String(value).padStart(2, "0");

/** "just now", "3 min ago", "2 h ago", "5 d ago"; "in 3 min" for what is to come. */
export function age(iso) {
  if (missing(iso)) return NONE;
  const seconds = (Date.now() - new Date(iso).getTime()) / 1000;
  if (Number.isNaN(seconds)) return NONE;
  const size = Math.abs(seconds);
  let text;
  if (size < 5) return "just now";
  if (size < 60) text = `${Math.floor(size)} s`;
  else if (size < 3600) text = `${Math.floor(size / 60)} min`;
  else if (size < 86_400) text = `${Math.floor(size / 3600)} h`;
  else text = `${Math.floor(size / 86_400)} d`;
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

/** Local date and time to the second. */
export function instant(iso) {
  if (missing(iso)) return NONE;
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return NONE;
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${day} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** "12 ms", "3.4 s", "1m 05s", "2h 03m". */
export function duration(ms) {
  if (missing(ms)) return NONE;
  if (Math.round(ms) < 1000) return `${ms > 0 && ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${pad(seconds % 60)}s`;
  return `${Math.floor(seconds / 3600)}h ${pad(Math.floor((seconds % 3600) / 60))}m`;
}

const STEPS = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "K"],
];

/** 10,000 and more are shortened: "12.3K", "4.5M". The tooltip for it is exact(n). */
export function number(n) {
  if (missing(n)) return NONE;
  if (Math.abs(n) < 10_000) return Number.isInteger(n) ? exact(n) : String(Number(n.toFixed(2)));
  for (const [step, unit] of STEPS) {
    // 999,999 is 1M, not 1000K.
    if (Math.abs(n) >= step * 0.99995) return `${Number((n / step).toFixed(1))}${unit}`;
  }
  return exact(n);
}

export const tokens = number;

/** With every digit: "12,345". */
export function exact(n) {
  return missing(n) ? NONE : Number(n).toLocaleString("en-US", { maximumFractionDigits: 6 });
}

/** "$12.34", "$0.0042"; small amounts keep two significant digits. */
export function money(usd) {
  if (missing(usd)) return NONE;
  if (usd === 0) return "$0";
  const size = Math.abs(usd);
  if (size >= 10_000) return `$${number(usd)}`;
  if (size >= 0.1) return `$${usd.toFixed(2)}`;
  return `$${usd.toFixed(Math.min(8, 1 - Math.floor(Math.log10(size))))}`;
}

/** "512 B", "1.5 KB": powers of 1024. */
export function bytes(n) {
  if (missing(n)) return NONE;
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  let value = n;
  while (Math.abs(value) >= 1023.95 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at ? Number(value.toFixed(1)) : Math.round(value)} ${units[at]}`;
}

/** *f* is a share from 0 to 1: "33.4 %". */
export function percent(f) {
  return missing(f) ? NONE : `${Number((f * 100).toFixed(1))} %`;
}
