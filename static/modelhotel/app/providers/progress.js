// The panel that follows a discovery of all providers: this tab's own, also after a reload, or somebody else's.
import { api, busy } from "../api.js";
import { on } from "../live.js";
import { toast } from "../toast.js";
import { h } from "../ui.js";
import { many, summaryOfAll } from "./scans.js";

const KEY = "mh-discovery";
const SCAN = 180_000; // ms one provider may take
const AT_ONCE = 8; // providers that are asked at the same time
const SLACK = 2000; // ms two clocks may differ
const DONE = ["good", "bad"];

/** A run: when it began on the server's clock, in ms; a line per provider {state, text, before}, by its name. */
function begin(at, rows) {
  const taking = rows.filter((row) => row.enabled && row.autodiscovery_enabled);
  return { at, lines: Object.fromEntries(taking.map((row) => [row.name, { state: "waiting", text: "waiting", before: row.model_count }])) };
}

/** Takes over what the providers' *rows* say of a run: whoever was asked since it began is done. True for news. */
export function settle(run, rows) {
  const known = new Map(rows.map((row) => [row.name, row]));
  let news = false;
  for (const [name, line] of Object.entries(run.lines)) {
    const row = known.get(name);
    if (!row) {
      delete run.lines[name]; // deleted or renamed meanwhile
      news = true;
    } else if (!DONE.includes(line.state)) {
      if (!(Date.parse(row.last_model_fetch_at) >= run.at)) continue;
      const failed = row.last_model_fetch_error || row.last_availability_error;
      Object.assign(line, failed ? { state: "bad", text: failed } : { state: "good", text: many(row.model_count, "model") });
      news = true;
    } else if (line.state === "good" && !line.added && row.model_count > line.before) {
      line.added = row.model_count - line.before;
      line.text += `, ${line.added} new`;
      news = true;
    }
  }
  return news;
}

/** Whether every provider of *run* has answered. */
export const finished = (run) => Object.values(run.lines).every((line) => DONE.includes(line.state));

/** Whether *run* must be over at *now* (ms), whatever became of it. */
export const expired = (run, now) => now > run.at + SCAN * Math.max(1, Math.ceil(Object.keys(run.lines).length / AT_ONCE));

function kept() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
}

function keep(run) {
  try {
    if (run) sessionStorage.setItem(KEY, JSON.stringify(run));
    else sessionStorage.removeItem(KEY);
  } catch {
    // A reload forgets it.
  }
}

export class Progress {
  /** *rows*(): the providers as the page knows them; *clock*(): the server's time in ms. */
  constructor(root, { rows, clock }) {
    this.rows = rows;
    this.clock = clock;
    this.panel = root.querySelector("#discovery");
    this.title = root.querySelector("#discovery-title");
    this.bar = root.querySelector("#discovery-bar");
    this.count = root.querySelector("#discovery-count");
    this.list = root.querySelector("#discovery-lines");
    this.button = root.querySelector("#discover-all");
    this.asked = false; // this page waits for the answer
    this.run = null;
    window.addEventListener("pagehide", () => { this.left = true; });
    window.addEventListener("pageshow", () => { this.left = false; });
    root.querySelector("#discovery-close").addEventListener("click", () => this.#end());
    on("request.discovery.provider_starting", ({ metadata, timestamp }) => this.#starting(metadata.provider, Date.parse(timestamp)));
    on("discovery.provider_fetched", ({ metadata }) => this.#say(metadata.provider, "good", many(metadata.count, "model")));
    on("discovery.provider_failed", ({ metadata }) => this.#say(metadata.provider, "bad", metadata.error));
    this.#resume();
  }

  #resume() {
    const run = kept();
    if (!run || expired(run, this.clock())) return keep(null);
    this.run = run;
    settle(run, this.rows());
    this.#draw();
  }

  /** Takes *rows* the page has read: what events did not tell. */
  note(rows) {
    if (!this.run) return;
    const news = settle(this.run, rows);
    if (!this.asked && !finished(this.run) && expired(this.run, this.clock())) this.#end();
    else if (news) this.#draw();
  }

  #starting(name, at) {
    // Somebody else's, or this tab's where the events of the last minutes came again.
    if (!this.run || (finished(this.run) && at > this.run.at && !this.asked)) {
      if (this.clock() - at > SCAN) return;
      this.run = begin(at, this.rows());
    }
    this.#say(name, "running", "asking…");
  }

  #say(name, state, text) {
    const line = this.run && this.run.lines[name];
    // What is finished is not asked again in this run.
    if (!line || DONE.includes(line.state)) return;
    Object.assign(line, { state, text });
    this.#draw();
  }

  #draw() {
    const lines = Object.entries(this.run.lines);
    const done = lines.filter(([, line]) => DONE.includes(line.state)).length;
    const failed = lines.filter(([, line]) => line.state === "bad").length;
    const over = done === lines.length && !this.asked;
    this.panel.hidden = false;
    this.panel.toggleAttribute("data-over", over);
    this.title.textContent = over ? "Discovery finished" : "Discovering models";
    this.bar.max = Math.max(1, lines.length);
    this.bar.value = done;
    this.count.textContent = `${done} of ${lines.length} done${failed ? `, ${failed} failed` : ""}`;
    if (over) lines.sort(([, one], [, other]) => (other.state === "bad") - (one.state === "bad")); // what needs somebody first
    this.list.replaceChildren(...lines.map(([name, { state, text }]) => h("li", { dataset: { state } }, h("strong", {}, name), h("span", {}, text))));
    if (this.button && !this.asked) this.button.disabled = !over;
    keep(this.asked || !over ? this.run : null);
  }

  #end() {
    this.run = null;
    this.panel.hidden = true;
    if (this.button) this.button.disabled = false;
    keep(null);
  }

  /** Scans all that take part, and shows what came of it. */
  async all() {
    this.run = begin(this.clock(), this.rows());
    if (!Object.keys(this.run.lines).length) {
      this.run = null;
      toast("No enabled provider takes part in discovery.", "warning");
      return;
    }
    const [before, at] = [this.rows(), this.run.at - SLACK];
    this.asked = true;
    this.#draw();
    try {
      const answer = await busy(this.button, api("POST", "/api/providers/discover-all"));
      this.#answered();
      this.#end();
      await summaryOfAll(answer, before, at);
    } catch (problem) {
      this.#answered();
      if (this.left) return; // the page was: the next one goes on following
      const refused = problem.status >= 400 && problem.status < 500;
      if (refused) this.#end();
      else this.#draw(); // whatever cut the answer off, the scans go on
      if (refused) toast(problem.message, "error");
    }
  }

  #answered() {
    this.asked = false;
  }
}
