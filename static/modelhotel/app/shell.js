// What every page of a signed-in person does: it copies on a click and shows events as toasts.
import "./copy.js";
import { on } from "./live.js";
import { toast } from "./toast.js";

const RECENT = 30_000; // ms; what happened before is no news, say after an hour in a hidden tab

on("*", (event) => {
  if (event.type.startsWith("request.") || event.type === "config.changed") return;
  if (Date.now() - new Date(event.timestamp).getTime() > RECENT) return;
  toast(event.message, event.severity);
});
