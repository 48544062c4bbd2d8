// What test_openai_node.py asks of OpenAI's SDK for Node: node openai_sdk.mjs SCENARIO ARGUMENTS, both from the test.
// Prints one line of JSON. SDK is the folder the package is installed in.
import { File as NodeFile } from "node:buffer";
import { createRequire } from "node:module";

globalThis.File ??= NodeFile; // Node 18 has it, but not as a global
const sdk = createRequire(`${process.env.SDK}/x.js`);
const { default: OpenAI, toFile } = sdk("openai");
const { makeParseableResponseFormat, makeParseableTextFormat } = sdk("openai/lib/parser"); // behind zodTextFormat
const [scenario, given] = process.argv.slice(2);
const { url, key, model, ...rest } = JSON.parse(given);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0, timeout: 15_000 });
const messages = [{ role: "user", content: "hi" }];
const city = { type: "string" };
const shape = { type: "object", properties: { name: city, people: { type: "integer" } }, required: ["name", "people"] };
const schema = { name: "City", strict: true, schema: { ...shape, additionalProperties: false } };
const picture = () => toFile(Buffer.from(rest.bytes ?? "", "base64"), "a.png", { type: "image/png" });
const sound = () => toFile(Buffer.from(rest.bytes ?? "", "base64"), "a.wav", { type: "audio/wav" });
const parameters = { type: "object", properties: { city }, required: ["city"] };

async function failure(promise) {
  try {
    await promise;
  } catch (problem) {
    const { status, code, param, type, requestID, message } = problem;
    return { name: problem.constructor.name, status, code, param, type, requestID: Boolean(requestID), message };
  }
  return null;
}

// How each endpoint is asked; *on* is a client.
const endpoints = {
  "chat/completions": (on, model, how) => on.chat.completions.create({ model, messages }, how),
  responses: (on, model, how) => on.responses.create({ model, input: "hi" }, how),
  embeddings: (on, model, how) => on.embeddings.create({ model, input: "hi" }, how),
  rerank: (on, model, how) => on.post("/rerank", { body: { model, query: "q", documents: ["a", "b"] }, ...how }),
  "images/generations": (on, model, how) => on.images.generate({ model, prompt: "a cat" }, how),
  "images/edits": async (on, model, how) => on.images.edit({ model, image: await picture(), prompt: "a dog" }, how),
  "images/variations": async (on, model, how) => on.images.createVariation({ model, image: await picture() }, how),
  "audio/speech": (on, model, how) => on.audio.speech.create({ model, input: "Hello", voice: "alloy" }, how),
  "audio/transcriptions": async (on, model, how) => on.audio.transcriptions.create({ model, file: await sound() }, how),
  "audio/translations": async (on, model, how) => on.audio.translations.create({ model, file: await sound() }, how),
};

// What *work* makes of each, all of them at once.
async function everywhere(work) {
  const found = Object.entries(endpoints).map(async ([name, ask]) => [name, await work(ask)]);
  return Object.fromEntries(await Promise.all(found));
}

// The test says when, by a line or by the end of our input: until then the process stays.
const told = (event) => new Promise((resolve) => process.stdin.once(event, resolve).resume());

const scenarios = {
  async chat() {
    const found = await client.chat.completions.create({ model, messages, seed: 7 });
    return { content: found.choices[0].message.content, usage: found.usage, id: Boolean(found._request_id) };
  },

  async stream() {
    const asked = { model, messages, stream: true, stream_options: { include_usage: true } };
    const pieces = [];
    let usage = null;
    for await (const chunk of await client.chat.completions.create(asked)) {
      usage = chunk.usage ?? usage;
      pieces.push(chunk.choices[0]?.delta?.content ?? "");
    }
    return { content: pieces.join(""), usage };
  },

  async tools() {
    const tools = [{ type: "function", function: { name: "get_weather", parameters } }];
    const first = await client.chat.completions.stream({ model, messages, tools }).finalChatCompletion();
    const turn = first.choices[0].message;
    const [call] = turn.tool_calls;
    const result = { role: "tool", tool_call_id: call.id, content: "sun" };
    const second = await client.chat.completions.create({ model, tools, messages: [...messages, turn, result] });
    return {
      finish: first.choices[0].finish_reason,
      name: call.function.name,
      arguments: JSON.parse(call.function.arguments),
      content: second.choices[0].message.content,
    };
  },

  async responses() {
    const whole = await client.responses.create({ model, input: "hi", store: false });
    const kinds = [];
    const stream = client.responses.stream({
      model,
      input: "hi",
      tools: [{ type: "function", name: "get_weather", parameters, strict: true }],
    });
    for await (const event of stream) kinds.push(event.type);
    const final = await stream.finalResponse();
    return { whole: whole.output_text, kinds, status: final.status, output: final.output };
  },

  async embeddings() {
    const found = await client.embeddings.create({ model, input: ["a", "b"] });
    return found.data.map((one) => Array.from(one.embedding));
  },

  async pictures() {
    const url = `data:image/png;base64,${rest.png}`;
    const shown = [
      { type: "text", text: "What is it?" },
      { type: "image_url", image_url: { url } },
    ];
    const given = [
      { type: "input_text", text: "What is it?" },
      { type: "input_image", image_url: url, detail: "low" },
    ];
    const chat = await client.chat.completions.create({ model, messages: [{ role: "user", content: shown }] });
    const response = await client.responses.create({ model, input: [{ role: "user", content: given }] });
    return [chat.choices[0].message.content, response.output_text];
  },

  async written() {
    const format = makeParseableResponseFormat({ type: "json_schema", json_schema: schema }, JSON.parse);
    const asked = { model, messages, response_format: format };
    const text = { format: makeParseableTextFormat({ type: "json_schema", ...schema }, JSON.parse) };
    const wanted = { model, input: "hi", text };
    const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
    return [
      (await client.chat.completions.parse(asked)).choices[0].message.parsed,
      streamed.choices[0].message.parsed,
      (await client.responses.parse(wanted)).output_parsed,
      (await client.responses.stream(wanted).finalResponse()).output_parsed,
    ];
  },

  async thinking() {
    const asked = { model, messages, reasoning_effort: "low" };
    const wanted = { model, input: "hi", reasoning: { effort: "low", summary: "auto" } };
    const chat = (await client.chat.completions.create(asked)).choices[0].message;
    const deltas = { thought: "", content: "" };
    for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
      deltas.thought += chunk.choices[0]?.delta.reasoning_content ?? "";
      deltas.content += chunk.choices[0]?.delta.content ?? "";
    }
    const response = await client.responses.create(wanted);
    const stream = client.responses.stream(wanted);
    let summary = "";
    stream.on("response.reasoning_summary_text.delta", (event) => (summary += event.delta));
    const final = await stream.finalResponse();
    return [
      [chat.reasoning_content, chat.content],
      [deltas.thought, deltas.content],
      [response.output[0].summary[0].text, response.output_text],
      [summary, final.output.at(-1).content[0].text],
    ];
  },

  async responseTools() {
    const asked = { model, tools: [{ type: "function", name: "get_weather", parameters, strict: true }] };
    const input = [{ role: "user", content: "How is Rome?" }];
    const first = rest.streamed
      ? await client.responses.stream({ ...asked, input }).finalResponse()
      : await client.responses.create({ ...asked, input });
    const call = first.output.at(-1);
    // A stream's call has a member of the SDK's own.
    const turn = first.output.map(({ parsed_arguments, ...item }) => item);
    const result = { type: "function_call_output", call_id: call.call_id, output: "sun" };
    const second = await client.responses.create({ ...asked, input: [...input, ...turn, result] });
    return { name: call.name, arguments: JSON.parse(call.arguments), id: call.call_id, text: second.output_text };
  },

  async images() {
    const found = [];
    for (const name of ["images/generations", "images/edits", "images/variations"]) {
      found.push((await endpoints[name](client, model)).data[0].b64_json);
    }
    return found;
  },

  async audio() {
    const speech = await endpoints["audio/speech"](client, model);
    const heard = (await endpoints["audio/transcriptions"](client, model)).text;
    const translated = (await endpoints["audio/translations"](client, model)).text;
    return { sound: Buffer.from(await speech.arrayBuffer()).toString("base64"), heard, translated };
  },

  async pieces() {
    const found = [];
    const made = { model, prompt: "a cat", stream: true, partial_images: 1 };
    for await (const event of await client.images.generate(made)) found.push(event);
    const given = { model, file: await sound(), stream: true };
    for await (const event of await client.audio.transcriptions.create(given)) found.push(event);
    return found;
  },

  async ranks() {
    return (await endpoints.rerank(client, model)).results;
  },

  async models() {
    const ids = [];
    for await (const one of client.models.list()) ids.push(one.id);
    return { ids, one: (await client.models.retrieve(model)).id };
  },

  async errors() {
    return Promise.all([
      failure(client.chat.completions.create({ model: "hotel/nothing", messages })),
      failure(client.withOptions({ apiKey: `sk-${"0".repeat(32)}` }).chat.completions.create({ model, messages })),
      failure(client.chat.completions.create({ model, messages: undefined, stream: "yes" })),
      failure(client.chat.completions.create({ model, messages })),
    ]);
  },

  async broken() {
    const pieces = [];
    const problem = await failure(
      (async () => {
        for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
          pieces.push(chunk.choices[0].delta.content ?? "");
        }
      })(),
    );
    return { content: pieces.join(""), problem };
  },

  // Every endpoint, one after the other: as often as there are statuses, then without a model and without a key.
  async refusals() {
    const found = {};
    for (const [name, ask] of Object.entries(endpoints)) {
      found[name] = [];
      for (const _ of rest.codes) found[name].push(await failure(ask(client, model)));
      found[name].push(await failure(ask(client, "hotel/nothing")));
      found[name].push(await failure(ask(client.withOptions({ apiKey: `sk-${"0".repeat(32)}` }), model)));
    }
    return found;
  },

  async timeouts() {
    return everywhere(async (ask) => (await failure(ask(client, model, { timeout: 600 }))).name);
  },

  async aborts() {
    const controller = new AbortController();
    const found = everywhere(async (ask) => (await failure(ask(client, model, { signal: controller.signal }))).name);
    await told("data");
    controller.abort();
    await told("end");
    return found;
  },

  async leaves() {
    const file = await sound();
    const streams = [
      () => client.chat.completions.create({ model, messages, stream: true }),
      () => client.responses.create({ model, input: "hi", stream: true }),
      () => client.images.generate({ model, prompt: "a cat", stream: true, partial_images: 1 }),
      () => client.audio.transcriptions.create({ model, file, stream: true }),
    ];
    const found = streams.map(async (open) => {
      const stream = await open();
      for await (const event of stream) {
        if (event.type?.startsWith("response.") && event.type !== "response.output_text.delta") continue;
        stream.controller.abort();
        return stream.controller.signal.aborted;
      }
    });
    const controller = new AbortController();
    const speech = await endpoints["audio/speech"](client, model, { signal: controller.signal });
    await speech.body.getReader().read();
    controller.abort();
    const aborted = await Promise.all(found);
    await told("end");
    return aborted;
  },
};

console.log(JSON.stringify(await scenarios[scenario]()));
