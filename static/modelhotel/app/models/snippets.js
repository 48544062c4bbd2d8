// Ready-made calls of one model through this gateway. The key stays a placeholder: it is never known here.
import { listOf } from "./facts.js";

const quoted = (text) => JSON.stringify(text);
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** [title, text] for *model*, the name clients ask for; *row* says whether it is asked for answers or for vectors. */
export function snippets(model, row, origin) {
  const base = `${origin}/v1`;
  const embeds = listOf(row.output_modalities).includes("embedding");
  const path = embeds ? "/embeddings" : "/chat/completions";
  const body = embeds ? { model, input: "Hello" } : { model, messages: [{ role: "user", content: "Hello" }] };
  const call = embeds ? "embeddings" : "chat.completions";
  const wanted = embeds ? `input="Hello"` : `messages=[{"role": "user", "content": "Hello"}]`;
  const js = embeds ? `input: "Hello"` : `messages: [{ role: "user", content: "Hello" }]`;
  const found = embeds ? "data[0].embedding" : "choices[0].message.content";
  return [
    ["curl", `curl ${base}${path} \\\n  -H "Authorization: Bearer $MODEL_HOTEL_KEY" \\\n  -H "Content-Type: application/json" \\\n  -d ${shell(JSON.stringify(body))}`],
    ["Python", `from openai import OpenAI\n\nclient = OpenAI(base_url=${quoted(base)}, api_key="YOUR_VIRTUAL_KEY")\nanswer = client.${call}.create(\n    model=${quoted(model)},\n    ${wanted},\n)\nprint(answer.${found})`],
    ["JavaScript", `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: ${quoted(base)}, apiKey: "YOUR_VIRTUAL_KEY" });\nconst answer = await client.${call}.create({\n  model: ${quoted(model)},\n  ${js},\n});\nconsole.log(answer.${found});`],
    ["Clients", `# Any OpenAI-compatible client\nOPENAI_BASE_URL=${base}\nOPENAI_API_KEY=YOUR_VIRTUAL_KEY\nOPENAI_MODEL=${model}`],
  ];
}
