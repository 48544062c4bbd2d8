// What a client needs to hear, ready to run or to be saved where it looks. Pure.
// The shapes are those of each client's own documentation.

/** Stands where a key would: the text of one that was shown once is known to nobody any more. */
export const PLACEHOLDER_KEY = "YOUR_VIRTUAL_KEY";
export const PLACEHOLDER_MODEL = "hotel/<group>";
const LISTEN = "On Linux a container reaches the gateway only when that was started with HOST=0.0.0.0. ";
const NAME = "Model Hotel";
const ID = "modelhotel";
/** Tokens, where a client must be told a context window that nobody knows. */
const CONTEXT = 128_000;
const quoted = (text) => JSON.stringify(text);
const json = (value) => JSON.stringify(value, null, 2);
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const power = (text) => `'${text.replaceAll(/['‘’‚‛]/g, "$&$&")}'`;

function curl({ base, key, model }) {
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Say hello." }] });
  return [
    `curl ${base}/chat/completions \\`,
    `  -H "Authorization: Bearer ${key}" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d ${shell(body)}`,
  ].join("\n");
}

function powershell({ base, key, model }) {
  return [
    "$body = @{",
    `  model = ${power(model)}`,
    "  messages = @(@{ role = 'user'; content = 'Say hello.' })",
    "} | ConvertTo-Json -Depth 5",
    "$answer = Invoke-RestMethod -Method Post `",
    `  -Uri ${power(`${base}/chat/completions`)} \``,
    `  -Headers @{ Authorization = ${power(`Bearer ${key}`)} } \``,
    "  -ContentType 'application/json; charset=utf-8' -Body $body",
    "$answer.choices[0].message.content",
  ].join("\n");
}

function python({ base, key, model }) {
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

function javascript({ base, key, model }) {
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

function claudeCode({ root, key, model }) {
  return [
    "unset ANTHROPIC_API_KEY",
    `export ANTHROPIC_BASE_URL=${shell(root)}`,
    `export ANTHROPIC_AUTH_TOKEN=${shell(key)}`,
    `export ANTHROPIC_MODEL=${shell(model)}`,
    `export ANTHROPIC_DEFAULT_HAIKU_MODEL=${shell(model)}`,
    "export CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS=1",
    "claude",
  ].join("\n");
}

function openCode({ base, key, model, context, output }) {
  const limit = context && output ? { limit: { context, output } } : {};
  const options = { baseURL: base, apiKey: key };
  return json({
    $schema: "https://opencode.ai/config.json",
    provider: { [ID]: { npm: "@ai-sdk/openai-compatible", name: NAME, options, models: { [model]: { name: model, ...limit } } } },
    model: `${ID}/${model}`,
  });
}

function openClaw({ base, key, model, context, output }) {
  const entry = { id: model, name: model, ...(context && { contextWindow: context }), ...(output && { maxTokens: output }) };
  return json({
    models: { mode: "merge", providers: { [ID]: { baseUrl: base, apiKey: key, api: "openai-completions", models: [entry] } } },
    agents: { defaults: { model: { primary: `${ID}/${model}` } } },
  });
}

function libreChat({ reached, key, model }) {
  return [
    "version: 1.2.1",
    "endpoints:",
    "  custom:",
    `    - name: ${quoted(NAME)}`,
    `      apiKey: ${quoted(key)}`,
    `      baseURL: ${quoted(reached)}`,
    "      models:",
    `        default: [${quoted(model)}]`,
    "        fetch: true",
    "      titleConvo: true",
    `      titleModel: ${quoted(model)}`,
    `      modelDisplayLabel: ${quoted(NAME)}`,
  ].join("\n");
}

function zed({ base, key, model, context, output }) {
  const entry = { name: model, max_tokens: context || CONTEXT, ...(output && { max_output_tokens: output }) };
  const settings = json({ language_models: { openai_compatible: { [ID]: { api_url: base, available_models: [entry] } } } });
  return `// The key is not kept here. Start Zed with this in its environment:\n// ${ID.toUpperCase()}_API_KEY=${key}\n${settings}`;
}

function hermes({ base, key, model, context }) {
  return [
    "model:",
    "  provider: custom",
    `  base_url: ${quoted(base)}`,
    `  api_key: ${quoted(key)}`,
    `  default: ${quoted(model)}`,
    ...(context ? [`  context_length: ${context}`] : []),
  ].join("\n");
}

const HERE = /\/\/(localhost|127\.0\.0\.1|\[::1\])(?=[:/])/;

function openWebUi({ reached, key }) {
  return [
    "docker run -d -p 3000:8080 --add-host=host.docker.internal:host-gateway \\",
    `  -e OPENAI_API_BASE_URL=${reached} \\`,
    `  -e OPENAI_API_KEY=${key} \\`,
    "  -v open-webui:/app/backend/data --name open-webui ghcr.io/open-webui/open-webui:main",
  ].join("\n");
}

/**
 * [{name, text, hint}] for the address *base* (with /v1), the key and a model that it may use. *facts*: the model's
 * entry of /v1/models, for its context window and longest answer, where they are known.
 */
export function snippets(base, key, model, facts = {}) {
  const known = {
    base,
    root: base.replace(/\/v1$/, ""),
    // Inside a container "localhost" is the container.
    reached: base.replace(HERE, "//host.docker.internal"),
    key,
    model,
    context: facts.context_length,
    output: facts.max_output_tokens,
  };
  const contained = HERE.test(base) ? LISTEN : "";
  return [
    { name: "cURL", text: curl(known), hint: 'For a stream: "stream": true in the body, and --no-buffer.' },
    { name: "PowerShell", text: powershell(known), hint: "Invoke-RestMethod waits for the whole answer; for a stream use curl.exe --no-buffer." },
    { name: "Python", text: python(known), hint: "" },
    { name: "JavaScript", text: javascript(known), hint: "" },
    {
      name: "Claude Code",
      text: claudeCode(known),
      hint: "Its background calls use the second model, which may be a smaller one. The variable about betas is for models and groups that are not on Anthropic's own API alone. To keep all this, put the variables under “env” in ~/.claude/settings.json.",
    },
    { name: "OpenCode", text: openCode(known), hint: "Into opencode.json of a project, or ~/.config/opencode/opencode.json. More models: more entries under “models”." },
    { name: "OpenClaw", text: openClaw(known), hint: "Into ~/.openclaw/openclaw.json, merged with what is there." },
    { name: "LibreChat", text: libreChat(known), hint: `${contained}Into librechat.yaml, which keeps its own version line; then restart LibreChat. It lists the models itself.` },
    {
      name: "Zed",
      text: zed(known),
      hint: `Into settings.json. The key can also be pasted in the agent's settings, LLM Providers.${known.context ? "" : " max_tokens is the context window: correct it for your model."}`,
    },
    { name: "Hermes", text: hermes(known), hint: "Into ~/.hermes/config.yaml, or answer “hermes model”, custom endpoint, with the same." },
    { name: "Open WebUI", text: openWebUi(known), hint: `${contained}In one that runs already: Admin Settings, Connections, add an OpenAI API connection with this base address and key.` },
  ];
}

const vectors = (entry) => /embed/i.test(entry.id) || (entry.output_modalities || []).some((one) => /embedding/i.test(one));

/** {groups, models}: the ids of a /v1/models answer that can chat, or all where none seems to. */
export function choices(entries) {
  const talking = entries.filter((entry) => !vectors(entry));
  const ids = (talking.length ? talking : entries).map((entry) => entry.id);
  return { groups: ids.filter((id) => id.startsWith("hotel/")), models: ids.filter((id) => !id.startsWith("hotel/")) };
}
