// What test_openai_node.py asks of OpenAI's SDK for Node: node openai_sdk.mjs SCENARIO ARGUMENTS, both from the test.
// Prints one line of JSON. SDK is the folder the package is installed in.
import { File as NodeFile } from "node:buffer";
import { createRequire } from "node:module";

globalThis.File ??= NodeFile; // Node 18 has it, but not as a global
const { default: OpenAI, toFile } = createRequire(`${process.env.SDK}/x.js`)("openai");
const [scenario, given] = process.argv.slice(2);
const { url, key, model, ...rest } = JSON.parse(given);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0, timeout: 15_000 });
const messages = [{ role: "user", content: "hi" }];
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

async function failure(promise) {
  try {
    await promise;
  } catch (problem) {
    const { status, code, param, type, requestID, message } = problem;
    return { name: problem.constructor.name, status, code, param, type, requestID: Boolean(requestID), message };
  }
  return null;
}

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

  async images() {
    const made = await client.images.generate({ model, prompt: "a cat" });
    const picture = await toFile(Buffer.from(rest.bytes, "base64"), "a.png", { type: "image/png" });
    const edited = await client.images.edit({ model, image: picture, prompt: "a dog" });
    return [made.data[0].b64_json, edited.data[0].b64_json];
  },

  async audio() {
    const speech = await client.audio.speech.create({ model, input: "Hello", voice: "alloy" });
    const sound = Buffer.from(await speech.arrayBuffer()).toString("base64");
    const file = await toFile(Buffer.from(rest.bytes, "base64"), "a.wav", { type: "audio/wav" });
    return { sound, text: (await client.audio.transcriptions.create({ model, file })).text };
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

  async abort() {
    const stream = await client.chat.completions.create({ model, messages, stream: true });
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta?.content) {
        stream.controller.abort();
        break;
      }
    }
    // The process stays until its input ends: that the upstream is let go must come from the abort.
    await new Promise((resolve) => process.stdin.on("end", resolve).resume());
    return { aborted: stream.controller.signal.aborted };
  },

  async timeout() {
    return failure(client.chat.completions.create({ model, messages }, { timeout: 700 }));
  },
};

console.log(JSON.stringify(await scenarios[scenario]()));
