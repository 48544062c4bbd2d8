// What a quota reading says, in words and shares. Pure.
import { age, exact, instant, money, number } from "../format.js";

const TIGHT = 80; // percent from which it is time to look
const SPENT = 100;

const known = (value) => value !== null && value !== undefined;

/** "$12.34", "1.2M tokens", "30 %"; "" for what is not known. */
export function amount(value, unit) {
  if (!known(value)) return "";
  if (unit === "USD") return value < 0 ? `-${money(-value)}` : money(value);
  return unit ? `${number(value)} ${unit}` : number(value);
}

/** The share of a window that is used, in percent; null where the provider does not say. */
export function share(window) {
  if (known(window.used_percent)) return window.used_percent;
  return known(window.used) && window.limit > 0 ? (100 * window.used) / window.limit : null;
}

/** What is left of a window, in its unit; null where it can not be told. */
export function rest(window) {
  if (known(window.remaining)) return window.remaining;
  return known(window.used) && known(window.limit) ? Math.max(0, window.limit - window.used) : null;
}

/** "62 %"; spent only where it is: 99.9 is not 100. */
export function percent(value) {
  if (value > 0 && value < 1) return "<1 %";
  return `${Math.floor(value)} %`;
}

/** good, warn or bad: how much is left of *window*. */
export function tone(window) {
  const used = share(window);
  if (known(used)) return used >= SPENT ? "bad" : used >= TIGHT ? "warn" : "good";
  return known(rest(window)) && rest(window) <= 0 ? "bad" : "good";
}

/** When *window* starts anew: "in 3 h"; "" for one without a date. */
export function resets(window) {
  if (!window.resets_at) return "";
  return Date.parse(window.resets_at) > Date.now() ? age(window.resets_at) : "reset due";
}

/** The window that matters most: the most used; of balances, which have no share, the fullest; null for none. */
export function lead(quota) {
  const shares = quota.windows.filter((window) => known(share(window)));
  if (shares.length) return shares.reduce((one, other) => (share(other) > share(one) ? other : one));
  const purses = quota.windows.filter((window) => known(window.remaining));
  return purses.length ? purses.reduce((one, other) => (other.remaining > one.remaining ? other : one)) : null;
}

/** Whether *quota* says how much there is, not just which plan. */
export const reports = (quota) => quota.http_status === 200 && lead(quota) !== null;

/** The short form: {name, text, used, tone, resets, title}; *used* is null where there is no share. null when it says nothing. */
export function brief(quota) {
  const window = reports(quota) ? lead(quota) : null;
  if (!window) return null;
  const used = share(window);
  const text = known(used) ? percent(used) : `${amount(window.remaining, window.unit)} left`;
  return { name: window.name, text, used, tone: tone(window), resets: resets(window), title: story(quota) };
}

/** What became of the last question, where it is worth a word: [tone, sentence]; null when all is well. */
export function trouble(quota) {
  if (quota.http_status === 424) return ["bad", "The provider refused the key when it was asked for its usage."];
  if (quota.http_status === 204) return ["muted", "The provider says that this account has no plan with a quota."];
  if (quota.last_error) return [quota.http_status === 200 ? "warn" : "bad", `The last refresh failed: ${quota.last_error}`];
  return null;
}

/** One line: "weekly: 62 % used, 380K tokens left, resets 2026-01-01 12:00:00". */
export function line(window) {
  const used = share(window);
  const parts = [
    known(used) && `${percent(used)} used`,
    known(rest(window)) && `${amount(rest(window), window.unit)} left`,
    window.resets_at && `resets ${instant(window.resets_at)}`,
  ].filter(Boolean);
  return `${window.name}: ${parts.join(", ") || "nothing is known"}`;
}

/** Every window, and how old the reading is, for a tooltip. */
export function story(quota) {
  const [, problem] = trouble(quota) || [];
  return [...quota.windows.map(line), quota.plan && `Plan: ${quota.plan}`, quota.fetched_at && `Read ${instant(quota.fetched_at)}`, problem].filter(Boolean).join("\n");
}

/** With every digit, for a tooltip; "" for what is not known. */
export const exactly = (value, unit) => (known(value) ? `${exact(value)} ${unit || ""}`.trim() : "");
