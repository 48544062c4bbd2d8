// What a model can do and how it stands, in the words of the page.

/** [what the API calls it, what the page calls it, which filter of the API it belongs to]. */
export const ABILITIES = [
  ["vision", "Vision", "capabilities"],
  ["reasoning", "Reasoning", "capabilities"],
  ["tool_calling", "Tools", "capabilities"],
  ["structured_output", "Structured", "capabilities"],
  ["pdf_upload", "PDF", "capabilities"],
  ["video_input", "Video", "capabilities"],
  ["audio_input", "Audio", "capabilities"],
  ["parallel_tool_calls", "Parallel", "capabilities"],
  ["image", "Image out", "outputs"],
  ["audio", "Audio out", "outputs"],
  ["video", "Video out", "outputs"],
  ["embedding", "Embedding", "outputs"],
  ["rerank", "Rerank", "outputs"],
];

function decoded(text, fallback) {
  try {
    return JSON.parse(text) ?? fallback;
  } catch {
    return fallback;
  }
}

export const listOf = (text) => {
  const found = decoded(text, []);
  return Array.isArray(found) ? found : [];
};

/** The names of what *row* can do. */
export function abilities(row) {
  const flags = decoded(row.capabilities, {});
  const outputs = listOf(row.output_modalities);
  return ABILITIES.filter(([id, , kind]) => (kind === "capabilities" ? flags[id] === true : outputs.includes(id))).map(([, name]) => name);
}

/** Whether *row* is a reranker, which may bill by searches. */
export const searches = (row) => row.modality === "rerank" || row.search_price_per_thousand !== null;

function whyOff(row) {
  if (row.disabled_manually) return "Switched off by hand";
  if (row.auto_retired_at) return "Switched off by its provider's refusals: it was asked and said that it no longer serves it";
  return "Switched off by discovery: its provider no longer offers it";
}

/** [tone, word, why] of a model's state. */
export function status(row) {
  if (!row.enabled) return ["muted", "Disabled", whyOff(row)];
  if (!row.provider_enabled) return ["warn", "Parked", "Its provider is disabled"];
  return ["good", "Enabled", "Requests are routed to it"];
}

/** The name clients ask for: ``provider/model``. */
export const proxyId = (row) => `${row.provider_name.replaceAll(" ", "-")}/${row.model_id}`;

export const title = (row) => row.display_name || row.name || row.model_id;
