// Ready-made calls of one model through this gateway. The key stays a placeholder: it is never known here.

const quoted = (text) => JSON.stringify(text);
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** How a class of models is called: *members* besides the model, *call* of the SDK, *read*: what its answer holds. */
const CALLS = {
  chat: { path: "/chat/completions", members: { messages: [{ role: "user", content: "Hello" }] }, call: "chat.completions.create", read: "choices[0].message.content" },
  embedding: { path: "/embeddings", members: { input: "Hello" }, call: "embeddings.create", read: "data[0].embedding" },
  image: { path: "/images/generations", members: { prompt: "A hotel at night" }, call: "images.generate", read: "data[0].b64_json" },
};
const RANKED = { query: "Where is Rome?", documents: ["In Italy.", "In Spain."] };
const SPOKEN = { voice: "alloy", input: "Hello" };
const FILE = "speech.mp3";

const python = (base, lines) => `from openai import OpenAI\n\nclient = OpenAI(base_url=${quoted(base)}, api_key="YOUR_VIRTUAL_KEY")\n${lines}`;
const javascript = (base, lines, more = "") => `${more}import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: ${quoted(base)}, apiKey: "YOUR_VIRTUAL_KEY" });\n${lines}`;
const curl = (base, path, rest) => `curl ${base}${path} \\\n  -H "Authorization: Bearer $MODEL_HOTEL_KEY" \\\n  ${rest}`;
const posted = (body) => `-H "Content-Type: application/json" \\\n  -d ${shell(JSON.stringify(body))}`;
const named = (members, sign) => Object.entries(members).map(([name, value]) => `${name}${sign}${quoted(value).replaceAll('":', '": ').replaceAll(',"', ', "')}`);

/** [curl, Python, JavaScript] of a call that is JSON both ways. */
function plain(model, base, { path, members, call, read }) {
  const asked = { model, ...members };
  return [
    curl(base, path, posted(asked)),
    python(base, `answer = client.${call}(\n    ${named(asked, "=").join(",\n    ")},\n)\nprint(answer.${read})`),
    javascript(base, `const answer = await client.${call}({\n  ${named(asked, ": ").join(",\n  ")},\n});\nconsole.log(answer.${read});`),
  ];
}

/** The same for what the SDK has no call for. */
function ranked(model, base) {
  const body = { model, ...RANKED };
  return [
    curl(base, "/rerank", posted(body)),
    python(base, `answer = client.post("/rerank", cast_to=dict, body=${quoted(body)})\nprint(answer["results"])`),
    javascript(base, `const answer = await client.post("/rerank", { body: ${quoted(body)} });\nconsole.log(answer.results);`),
  ];
}

function spoken(model, base) {
  const body = { model, ...SPOKEN };
  return [
    curl(base, "/audio/speech", `${posted(body)} \\\n  -o ${FILE}`),
    python(base, `client.audio.speech.create(${named(body, "=").join(", ")}).write_to_file(${quoted(FILE)})`),
    javascript(base, `const answer = await client.audio.speech.create({ ${named(body, ": ").join(", ")} });\nawait writeFile(${quoted(FILE)}, Buffer.from(await answer.arrayBuffer()));`, `import { writeFile } from "node:fs/promises";\n`),
  ];
}

function transcribed(model, base) {
  return [
    curl(base, "/audio/transcriptions", `-F ${shell(`model=${model}`)} -F file=@${FILE}`),
    python(base, `with open(${quoted(FILE)}, "rb") as file:\n    print(client.audio.transcriptions.create(model=${quoted(model)}, file=file).text)`),
    javascript(base, `const answer = await client.audio.transcriptions.create({ model: ${quoted(model)}, file: createReadStream(${quoted(FILE)}) });\nconsole.log(answer.text);`, `import { createReadStream } from "node:fs";\n`),
  ];
}

const OTHERS = { rerank: ranked, tts: spoken, stt: transcribed };

/** [title, text] for *model*, the name clients ask for; *row* says what it is asked for. */
export function snippets(model, row, origin) {
  const base = `${origin}/v1`;
  const other = OTHERS[row.modality];
  const texts = other ? other(model, base) : plain(model, base, CALLS[row.modality] ?? CALLS.chat);
  const clients = `# Any OpenAI-compatible client\nOPENAI_BASE_URL=${base}\nOPENAI_API_KEY=YOUR_VIRTUAL_KEY\nOPENAI_MODEL=${model}`;
  return [...["curl", "Python", "JavaScript"].map((title, at) => [title, texts[at]]), ["Clients", clients]];
}
