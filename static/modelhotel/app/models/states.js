// The states in which a model and its provider's listing disagree, and what can be answered to each.

/** id: what the API calls it. tone, title, why: of its heading. answer: what ends the claim, "" where only time does. */
export const STATES = [
  { id: "gone", tone: "bad", title: "Gone", why: "Switched off: the provider lists them no more.", answer: "dismiss" },
  { id: "stale", tone: "muted", title: "Stale", why: "Gone for more than 30 days, and nothing moved since.", answer: "dismiss" },
  { id: "suspect", tone: "warn", title: "Suspect", why: "Still on: the last sweep missed them. Missed once more, they are switched off.", answer: "" },
  { id: "retired", tone: "bad", title: "Refused", why: "Switched off: the provider lists them, but refuses them by name.", answer: "dismiss" },
  { id: "pinned", tone: "info", title: "Pinned", why: "Switched on by hand although they are not listed: discovery leaves them on.", answer: "unpin" },
];

/** verb: its button. all: the button for several, and the question it asks. done: what is told. */
export const ANSWERS = {
  dismiss: { verb: "Dismiss", done: "dismissed", text: "They stay off and are not shown here again until their provider lists them. Discovery goes on. This cannot be taken back." },
  unpin: { verb: "Unpin", done: "unpinned", text: "They stay on for now. Discovery switches them off when two more sweeps miss them." },
};

const times = (count) => (count === 1 ? "once" : `${count} times`);

/** What is known of a claim besides its name: [text, ISO time or null] each. *came*: ups and downs since the last review. */
export function factsOf(claim, came = 0) {
  const found = [["last seen", claim.last_seen_at]];
  if (claim.retired_at) found.push(["refused", claim.retired_at]);
  if (claim.pinned_at) found.push(["pinned", claim.pinned_at]);
  if (claim.missing_scans) found.push([`missed ${times(claim.missing_scans)}`, null]);
  if (claim.flap_window) found.push([`came or went ${times(claim.flap_window)} in 30 days${came ? `, ${came} since the last review` : ""}`, null]);
  return found;
}
