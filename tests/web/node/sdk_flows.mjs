// Flows of @langchain/langgraph-sdk: `client.threads.stream`, and the calls that agent-chat-ui makes.
import assert from "node:assert/strict";
import { Client } from "@langchain/langgraph-sdk";

const NEW = { foo: "a", log: ["input"] };
const DONE = ["input", "first", "second"];

const clientOf = (address) => new Client({ apiUrl: address, apiKey: null });
const logOf = async (client, id) => (await client.threads.getState(id)).values.log;

async function submit(address) {
  const client = clientOf(address);
  const thread = client.threads.stream({ assistantId: "log" });
  const { run_id } = await thread.run.start({ input: NEW });
  const seen = [];
  for await (const values of thread.values) seen.push(values.log);
  assert.deepEqual(seen.at(-1), DONE);
  assert.equal((await client.runs.get(thread.threadId, run_id)).status, "success");
  await thread.close();
}

async function messages(address) {
  const thread = clientOf(address).threads.stream({ assistantId: "talk" });
  const started = thread.run.start({ input: { messages: [{ role: "user", content: "hi" }] } });
  const pieces = [];
  for await (const message of thread.messages) {
    for await (const piece of message.text) pieces.push(piece);
  }
  await started;
  assert.deepEqual(pieces, ["Hel", "lo"]);
  await thread.close();
}

async function answer(address) {
  const client = clientOf(address);
  const thread = client.threads.stream({ assistantId: "ask" });
  await thread.run.start({ input: NEW });
  for await (const _ of thread.values);
  assert.equal(thread.interrupted, true);
  const [{ interruptId, payload, namespace }] = thread.interrupts;
  assert.equal(payload, "why?");
  await thread.input.respond({ interrupt_id: interruptId, namespace, response: "because" });
  while ((await logOf(client, thread.threadId)).length < 3);
  assert.equal((await logOf(client, thread.threadId)).at(-1), "answer: because");
  await assert.rejects(
    () => thread.input.respond({ interrupt_id: interruptId, namespace, response: "again" }),
    /doesn't wait for an answer/,
  );
  await thread.close();
}

async function fail(address) {
  const thread = clientOf(address).threads.stream({ assistantId: "fail" });
  await thread.run.start({ input: NEW });
  const events = await thread.subscribe({ channels: ["lifecycle"] });
  const ends = [];
  for await (const event of events) ends.push(event.params.data);
  assert.equal(ends.at(-1).event, "failed");
  assert.equal(ends.at(-1).error, "ValueError: broken");
  await thread.close();
}

async function chat(address) {
  // What agent-chat-ui does: info, a new thread, a streamed run, the list, an edit by checkpoint.
  const client = clientOf(address);
  const info = await fetch(`${address}/info`);
  assert.equal(info.ok, true);
  const thread = await client.threads.create({ metadata: { owner: "page" } });
  const id = thread.thread_id;
  const input = { messages: [{ id: "q", type: "human", content: "hi" }] };
  const modes = ["values", "messages-tuple"];
  const options = { input, streamMode: modes, streamSubgraphs: true, streamResumable: true };
  const names = new Set();
  for await (const part of client.runs.stream(id, "talk", options)) names.add(part.event);
  assert(names.has("values") && names.has("messages"));
  const listed = await client.threads.search({ metadata: { owner: "page" }, limit: 100 });
  assert(listed.some((one) => one.thread_id === id));
  const history = await client.threads.getHistory(id, { limit: 100 });
  const first = history.find((state) => state.values.messages?.length === 1);
  const again = { input: null, checkpoint: first.checkpoint, streamMode: modes };
  for await (const part of client.runs.stream(id, "talk", again)) names.add(part.event);
  const state = await client.threads.getState(id);
  assert.equal(state.values.messages.length, 2);
  await client.threads.delete(id);
}

/** Let the graph "words" write some words of its answer. */
export async function open(address, words = 1) {
  for (let word = 0; word < words; word += 1) await fetch(`${address}/open`, { method: "POST" });
}

export const QUESTION = { messages: [{ id: "q", type: "human", content: "weather?" }] };
export const ANSWER = "It rains in Bergen.";
export const CALL = { name: "weather", args: { place: "Bergen" } };

const textOf = ({ event, data }) =>
  event === "messages" && data[0].id === "answers" && data[0].type === "AIMessageChunk" ? data[0].content : "";
const argsOf = ({ event, data }) =>
  event === "messages" ? (data[0].tool_call_chunks ?? []).map((one) => one.args).join("") : "";

async function cut(address) {
  // A call of a tool and an answer in pieces: cut in the middle, joined by the last event's id.
  const client = clientOf(address);
  const { thread_id: id } = await client.threads.create();
  const made = { input: QUESTION, streamMode: ["messages-tuple"], streamResumable: true };
  const { run_id: run } = await client.runs.create(id, "words", made);
  await open(address, 2);
  const parts = [];
  const leave = new AbortController();
  for await (const part of client.runs.joinStream(id, run, { signal: leave.signal })) {
    parts.push(part);
    if (textOf(part)) break;
  }
  leave.abort();
  await open(address, 2);
  const place = { lastEventId: parts.at(-1).id };
  for await (const part of client.runs.joinStream(id, run, place)) parts.push(part);
  assert.deepEqual(parts.map((part) => Number(part.id)), parts.map((_, index) => index + 1));
  assert.deepEqual(JSON.parse(parts.map(argsOf).join("")), CALL.args);
  assert.equal(parts.map(textOf).join(""), ANSWER);
  const whole = [];
  for await (const part of client.runs.joinStream(id, run, { lastEventId: "-1" })) whole.push(part);
  assert.deepEqual(whole, parts);
}

async function tools(address) {
  // The same by the streaming protocol: the SDK puts the messages together, and each word is
  // written when the one before has been read.
  const thread = clientOf(address).threads.stream({ assistantId: "words" });
  const started = thread.run.start({ input: QUESTION });
  const calls = [];
  let text = "";
  for await (const message of thread.messages) {
    text = "";
    if (message.node === "call") {
      calls.push(...(await message.output).tool_calls);
      await open(address);
    }
    for await (const piece of message.text) {
      text += piece;
      if (ANSWER.startsWith(text) && text !== ANSWER) await open(address);
    }
    if (text === ANSWER) break;
  }
  await started;
  assert.deepEqual(calls.map(({ name, args }) => ({ name, args })), [CALL]);
  assert.equal(text, ANSWER);
  await thread.close();
}

async function cancel(address) {
  const client = clientOf(address);
  const { thread_id: id } = await client.threads.create();
  const { run_id: run } = await client.runs.create(id, "sleep", { input: NEW });
  for await (const part of client.runs.joinStream(id, run)) {
    if (part.event === "values") await client.runs.cancel(id, run);
  }
  assert.equal((await client.runs.get(id, run)).status, "interrupted");
}

export const flows = { submit, messages, answer, fail, chat, cut, tools, cancel };
