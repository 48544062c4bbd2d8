// When something was, as short as a list can have it.
import { instant } from "../format.js";

/** Of today the time is enough, of this year day and minute, else the day; the tooltip has all of it. */
export function moment(iso) {
  const text = instant(iso);
  const today = instant(new Date().toISOString());
  const [day, time] = text.split(" ");
  const short = today.startsWith(day) ? time : day.slice(0, 4) === today.slice(0, 4) ? text.slice(5, 16) : day;
  return { tag: "time", text: short, title: `${text} (${iso})`, datetime: iso };
}
