// The version at the foot of the sidebar says when there is a newer one. Asked once in half an hour; silent on failure.
import { api } from "./api.js";
import { h } from "./ui.js";

const AGAIN = 1_800_000; // ms; the server keeps its answer as long
const KEPT = "mh-release";

async function release() {
  try {
    const [at, found] = JSON.parse(sessionStorage.getItem(KEPT) || "[0]");
    if (Date.now() - at < AGAIN) return found;
  } catch {
    // A browser that keeps nothing asks again.
  }
  const found = await api("GET", "/api/version/latest");
  try {
    sessionStorage.setItem(KEPT, JSON.stringify([Date.now(), found]));
  } catch {
    // As above.
  }
  return found;
}

export async function version(place) {
  if (!place) return;
  try {
    const { newer, latest, url } = await release();
    if (!newer) return;
    const props = { class: "mh-version-newer", title: `Model Hotel ${latest} is out` };
    const link = url && { ...props, href: url, target: "_blank", rel: "noopener noreferrer" };
    place.replaceChildren(h(link ? "a" : "span", link || props, `${place.textContent} → ${latest}`));
  } catch (problem) {
    if (problem.name !== "ApiError") throw problem;
  }
}
