// What a client needs to hear, ready to run. Pure.

const LISTEN = "On Linux a container reaches the gateway only when that was started with HOST=0.0.0.0. ";
const quoted = (text) => JSON.stringify(text);
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function curl(base, key, model) {
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Say hello." }] });
  return [
    `curl ${base}/chat/completions \\`,
    `  -H "Authorization: Bearer ${key}" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d ${shell(body)}`,
  ].join("\n");
}

function python(base, key, model) {
  return [
    "# pip install openai",
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url=${quoted(base)}, api_key=${quoted(key)})`,
    "answer = client.chat.completions.create(",
    `    model=${quoted(model)},`,
    '    messages=[{"role": "user", "content": "Say hello."}],',
    ")",
    "print(answer.choices[0].message.content)",
  ].join("\n");
}

function javascript(base, key, model) {
  return [
    "// npm install openai",
    'import OpenAI from "openai";',
    "",
    `const client = new OpenAI({ baseURL: ${quoted(base)}, apiKey: ${quoted(key)} });`,
    "const answer = await client.chat.completions.create({",
    `  model: ${quoted(model)},`,
    '  messages: [{ role: "user", content: "Say hello." }],',
    "});",
    "console.log(answer.choices[0].message.content);",
  ].join("\n");
}

const HERE = /\/\/(localhost|127\.0\.0\.1|\[::1\])(?=[:/])/;

function openWebUi(base, key) {
  // Inside a container "localhost" is the container.
  const reached = base.replace(HERE, "//host.docker.internal");
  return [
    "docker run -d -p 3000:8080 --add-host=host.docker.internal:host-gateway \\",
    `  -e OPENAI_API_BASE_URL=${reached} \\`,
    `  -e OPENAI_API_KEY=${key} \\`,
    "  -v open-webui:/app/backend/data --name open-webui ghcr.io/open-webui/open-webui:main",
  ].join("\n");
}

/** [{name, text, hint}] for the address *base* (with /v1), the key and a model that it may use. */
export function snippets(base, key, model) {
  return [
    { name: "curl", text: curl(base, key, model), hint: "" },
    { name: "Python", text: python(base, key, model), hint: "" },
    { name: "JavaScript", text: javascript(base, key, model), hint: "" },
    {
      name: "Open WebUI",
      text: openWebUi(base, key),
      hint: `${HERE.test(base) ? LISTEN : ""}In one that runs already: Admin Settings, Connections, add an OpenAI API connection with this base address and key.`,
    },
  ];
}

const vectors = (entry) => /embed/i.test(entry.id) || (entry.output_modalities || []).some((one) => /embedding/i.test(one));

/** {groups, models}: the ids of a /v1/models answer that can chat, or all where none seems to. */
export function choices(entries) {
  const talking = entries.filter((entry) => !vectors(entry));
  const ids = (talking.length ? talking : entries).map((entry) => entry.id);
  return { groups: ids.filter((id) => id.startsWith("hotel/")), models: ids.filter((id) => !id.startsWith("hotel/")) };
}
