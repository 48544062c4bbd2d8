// The dialog Discrepancies: where providers and what is stored disagree, what to answer, and what changed lately.
import { api, busy } from "../api.js";
import { confirm, open } from "../dialog.js";
import { onClaimsChanged, refresh } from "../discovery.js";
import { age, exact, instant } from "../format.js";
import { toast } from "../toast.js";
import { h } from "../ui.js";
import { many, sections } from "../providers/scans.js";
import { ANSWERS, factsOf, STATES } from "./states.js";
import { verdict } from "./verdict.js";

const SHOWN = 50; // models of a group, and entries of the journal, before one has to ask for more
const MOST = 10_000; // ids one call may hold

const quiet = (text, key, fn, more = {}) => h("button", { type: "button", class: "mh-btn mh-btn-quiet mh-small", dataset: { key }, ...more, on: { click: fn } }, text);
const time = (iso) => h("time", { datetime: iso, title: instant(iso) }, age(iso));

export class Claims {
  /** *providers*: id -> provider of the page; *changed*() is called after every change made here. */
  constructor({ mayChange, mayAcknowledge, providers, changed, closed }) {
    Object.assign(this, { mayChange, mayAcknowledge, providers, changed });
    this.rows = new Map(); // claim id -> its element, with how its test went
    this.came = new Map(); // claim id -> ups and downs since the last review, as the first answer had it
    this.more = new Map(); // group -> how many of it are shown
    this.said = new Map(); // provider id -> what its scan brought
    this.working = 0;
    this.late = false; // something changed while work was under way
    this.failed = h("p", { class: "mh-refused", role: "alert", hidden: true }, h("span", {}), " ", quiet("Retry", "retry", () => this.#load()));
    this.body = h("div", { class: "mh-claims", "aria-busy": "true" }, h("p", { class: "mh-why" }, "Looking…"));
    this.dialog = h(
      "dialog",
      { "data-size": "wide" },
      // Where the keyboard starts: at the top, and on nothing that a stray key could press.
      h("h2", { tabindex: "-1", autofocus: true }, "Discrepancies"),
      h("p", { class: "mh-why" }, "Where the models that are stored and those their providers list or serve disagree, and what the last sweeps changed."),
      this.failed,
      this.body,
      h("div", { class: "mh-dialog-actions" }, h("button", { type: "button", class: "mh-btn", "data-close": true }, "Close")),
    );
    const back = onClaimsChanged(() => this.#again());
    this.dialog.addEventListener("close", () => {
      back();
      closed();
    }, { once: true });
    this.close = open(this.dialog);
    this.#load("?review=1");
  }

  // -- reading

  async #load(query = "") {
    try {
      this.#take(await api("GET", `/api/discovery/status${query}`), Boolean(query));
      this.failed.hidden = true;
    } catch (problem) {
      if (problem.name !== "ApiError") throw problem;
      // The last good content stays.
      this.failed.hidden = false;
      this.failed.firstElementChild.textContent = problem.message;
    }
  }

  #again() {
    // What is under way writes into the rows; they are drawn anew when it is done.
    if (this.working) this.late = true;
    else if (this.dialog.open) return this.#load();
    return null;
  }

  #take(found, review) {
    this.found = found;
    if (review) for (const claim of found.claims.flatMap((owner) => STATES.flatMap(({ id }) => owner[id]))) this.came.set(claim.id, claim.flap_since_review);
    this.#draw();
  }

  /** Runs *work* behind *button*, then reads again; what the API refuses becomes a toast. */
  async #do(button, work) {
    this.working += 1;
    try {
      return await busy(button, work());
    } catch (problem) {
      if (problem.name !== "ApiError") throw problem;
      toast(problem.message, "error");
      return null;
    } finally {
      this.working -= 1;
      if (this.late && !this.working) {
        this.late = false;
        this.#again();
      }
    }
  }

  // -- drawing

  #draw() {
    const { claims, group_claims: groups, informational } = this.found;
    const focused = this.dialog.contains(document.activeElement) ? document.activeElement : null;
    const at = this.dialog.scrollTop;
    const calm = !claims.length && !groups.length && h("p", { class: "mh-claims-calm" }, "Nothing disagrees.");
    this.body.replaceChildren(...[calm, ...claims.map((owner) => this.#provider(owner)), groups.length > 0 && this.#groups(groups), this.#journal(informational)].filter(Boolean));
    this.body.removeAttribute("aria-busy");
    this.dialog.scrollTop = at;
    this.#refocus(focused);
  }

  /** The keyboard stays where it was, or goes to the top where that is gone. */
  #refocus(focused) {
    if (!focused || focused === document.activeElement) return;
    const same = focused.dataset.key && this.dialog.querySelector(`[data-key="${CSS.escape(focused.dataset.key)}"]`);
    const next = focused.isConnected ? focused : same || this.dialog.querySelector("h2");
    next.focus({ preventScroll: true });
  }

  #provider(owner) {
    const known = this.providers.get(owner.provider_id);
    const scan = this.mayChange && known?.discoverable && quiet("Ask the provider again", `scan:${owner.provider_id}`, (event) => this.#scan(owner, event.currentTarget));
    const said = this.said.get(owner.provider_id);
    return h(
      "section",
      { class: "mh-claims-provider", "aria-label": owner.provider_name },
      h("header", { class: "mh-part" }, h("h3", {}, owner.provider_name), h("span", { class: "mh-push" }), scan),
      said && h("p", { class: "mh-why", role: "status" }, said),
      STATES.filter(({ id }) => owner[id].length).map((state) => this.#group(owner, state)),
    );
  }

  #group(owner, state) {
    const claims = owner[state.id];
    const key = `${state.id}:${owner.provider_id}`;
    const shown = claims.slice(0, this.more.get(key) ?? SHOWN);
    const rest = claims.length - shown.length;
    const answer = ANSWERS[state.answer];
    const list = h("ul", { class: "mh-claim-list" }, shown.map((claim) => this.#row(owner, state, claim)));
    const forAll = this.mayChange && claims.length > 1 && [
      quiet("Retest all", `tests:${key}`, (event) => this.#retestAll(shown, event.currentTarget), rest ? { title: `Those ${shown.length} that are shown` } : {}),
      answer && quiet(`${answer.verb} all`, `all:${key}`, (event) => this.#answerAll(owner, state, claims, event.currentTarget)),
    ];
    return h(
      "section",
      { class: "mh-claim-group", "aria-label": `${state.title}, ${owner.provider_name}`, dataset: { state: state.id } },
      h("header", { class: "mh-claim-head" }, h("h4", {}, state.title), h("span", { class: "mh-chip", dataset: { tone: state.tone } }, exact(claims.length)), h("span", { class: "mh-why" }, state.why), h("span", { class: "mh-claim-acts" }, forAll)),
      list,
      rest > 0 && quiet(`Show ${exact(Math.min(rest, SHOWN))} of ${exact(rest)} more`, `more:${key}`, () => {
        this.more.set(key, shown.length + SHOWN);
        this.#draw();
      }),
    );
  }

  /** A row that did not change keeps its element, and with it how its test went. */
  #row(owner, state, claim) {
    const mark = JSON.stringify([claim, state.id]);
    const before = this.rows.get(claim.id);
    if (before && before.mark === mark) return before.element;
    const outcome = before ? before.outcome : h("div", { class: "mh-claim-outcome", role: "status" });
    const answer = ANSWERS[state.answer];
    const facts = factsOf(claim, this.came.get(claim.id)).map(([text, iso]) => h("span", {}, text, iso && [" ", time(iso)]));
    const element = h(
      "li",
      { dataset: { claim: claim.model_id } },
      h("button", { type: "button", class: "mh-copyable", dataset: { copyText: claim.model_id, key: `id:${claim.id}` }, title: "Copy" }, h("code", {}, claim.model_id)),
      h("span", { class: "mh-why mh-claim-facts" }, facts),
      this.mayChange && h(
        "span",
        { class: "mh-claim-acts" },
        quiet("Retest", `test:${claim.id}`, (event) => this.#do(event.currentTarget, () => this.#retest(claim)), { "aria-label": `Retest ${claim.model_id}`, title: "Sends a small request" }),
        answer && quiet(answer.verb, `answer:${claim.id}`, (event) => this.#answer(owner, state.answer, [claim], event.currentTarget), { "aria-label": `${answer.verb} ${claim.model_id}`, title: answer.text }),
      ),
      outcome,
    );
    this.rows.set(claim.id, { mark, element, outcome });
    return element;
  }

  #groups(groups) {
    const lines = groups.map((group) =>
      h(
        "li",
        {},
        h("a", { class: "mh-plain", href: `/failover/?q=${encodeURIComponent(group.display_model)}` }, `hotel/${group.display_model}`),
        h("span", { class: "mh-why mh-claim-facts" }, h("span", {}, `${group.routable_count} of ${many(group.member_count, "member")} can be called`), h("span", {}, "off for", " ", time(group.disabled_at))),
      ),
    );
    return h(
      "section",
      { class: "mh-claims-provider", "aria-label": "Failover groups" },
      h("header", { class: "mh-part" }, h("h3", {}, "Failover groups"), h("span", { class: "mh-chip", dataset: { tone: "bad" } }, exact(groups.length))),
      h("p", { class: "mh-why" }, "Switched off by discovery: fewer than two of their members can be called. They are switched on again by hand, on the failover board."),
      h("ul", { class: "mh-claim-list" }, lines),
    );
  }

  #journal(entries) {
    const read = this.mayAcknowledge && entries.length > 0 && quiet("Mark as read", "read", (event) => this.#acknowledge(event.currentTarget));
    const rest = entries.length - SHOWN;
    const one = (entry) =>
      h(
        "section",
        { class: "mh-found-provider" },
        h("h4", {}, entry.provider_name || "Failover groups", " ", h("span", { class: "mh-why" }, time(entry.detected_at), entry.source === "startup" ? ", at startup" : "")),
        sections(entry.diff, [], "h5"),
      );
    return h(
      "section",
      { class: "mh-claims-journal", "aria-label": "Recent changes" },
      h("header", { class: "mh-part" }, h("h3", {}, "Recent changes"), h("span", { class: "mh-push" }), read),
      entries.length ? entries.slice(0, SHOWN).map(one) : h("p", { class: "mh-why" }, "No sweep changed anything that nobody has read."),
      rest > 0 && h("p", { class: "mh-why" }, `and ${many(rest, "older change")}`),
    );
  }

  // -- doing

  async #retest(claim) {
    const { outcome } = this.rows.get(claim.id);
    outcome.replaceChildren(h("p", { class: "mh-why" }, "Sending a small request…"));
    try {
      const found = await api("POST", `/api/models/${claim.id}/test?allow_disabled=true`);
      const on = found.success && claim.state !== "suspect" && claim.state !== "pinned" && quiet("Switch on", `on:${claim.id}`, (event) => this.#switchOn(claim, event.currentTarget), { "aria-label": `Switch on ${claim.model_id}` });
      outcome.replaceChildren(...verdict(found), ...(on ? [on] : []));
    } catch (problem) {
      if (problem.name !== "ApiError") throw problem;
      outcome.replaceChildren(h("p", { class: "mh-outcome", dataset: { tone: "bad" } }, problem.message));
    }
  }

  #retestAll(claims, button) {
    return this.#do(button, async () => {
      // One after the other: a provider in trouble is not helped by a burst.
      for (const claim of claims) if (this.dialog.open) await this.#retest(claim);
    });
  }

  #switchOn(claim, button) {
    return this.#do(button, async () => {
      await api("PATCH", `/api/models/${claim.id}`, { enabled: true });
      toast(`${claim.model_id} is on.`, "success");
      this.#changed();
    });
  }

  #scan(owner, button) {
    return this.#do(button, async () => {
      const { discovered, diff } = await api("POST", `/api/providers/${owner.provider_id}/discover`);
      const back = (diff.reenabled || []).length;
      this.said.set(owner.provider_id, `${many(discovered, "model")} listed just now, ${back ? `${exact(back)} came back` : "none came back"}.`);
      this.#changed();
    });
  }

  #answer(owner, word, claims, button) {
    return this.#do(button, async () => {
      const ids = claims.map((claim) => claim.model_id);
      for (let from = 0; from < ids.length; from += MOST) {
        await api("POST", `/api/discovery/${word}`, { provider_id: owner.provider_id, model_ids: ids.slice(from, from + MOST) });
      }
      toast(ids.length === 1 ? `${ids[0]} was ${ANSWERS[word].done}.` : `${many(ids.length, "model")} were ${ANSWERS[word].done}.`, "success");
      this.#changed();
    });
  }

  async #answerAll(owner, state, claims, button) {
    const { verb, text } = ANSWERS[state.answer];
    const title = `${verb} ${many(claims.length, "model")} of ${owner.provider_name}?`;
    if (await confirm({ title, text, action: `${verb} ${exact(claims.length)}`, danger: false })) await this.#answer(owner, state.answer, claims, button);
  }

  #acknowledge(button) {
    return this.#do(button, async () => {
      await api("POST", "/api/discovery/changes/ack");
      this.#changed();
    });
  }

  #changed() {
    this.late = true;
    refresh().catch(() => {}); // the next poll of the badge shows it
    this.changed();
  }
}
