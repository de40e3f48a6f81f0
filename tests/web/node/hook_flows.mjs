// Flows of a page with `useStream`: of @langchain/react, and of the SDK's older entry.
import assert from "node:assert/strict";
import { createElement, useEffect } from "react";
import { create } from "react-test-renderer";
import { Client } from "@langchain/langgraph-sdk";
import { useStream as useCurrent } from "@langchain/react";
import { useStream as useOlder } from "@langchain/langgraph-sdk/react";
import { ANSWER, CALL, QUESTION, open as write } from "./sdk_flows.mjs";

const NEW = { foo: "a", log: ["input"] };
const DONE = ["input", "first", "second"];

// The page renders outside of `act`, as in a browser.
globalThis.IS_REACT_ACT_ENVIRONMENT = false;
const print = console.error;
console.error = (...parts) =>
  String(parts[0]).includes("react-test-renderer is deprecated") || print(...parts);

const LIMIT_MS = 20_000;

const describe = ({ isLoading, isThreadLoading, values, interrupt, error }) =>
  JSON.stringify({ isLoading, isThreadLoading, values, interrupt, error: error && String(error) });

/** A page that shows one stream; `until` waits until what it shows fits. */
function open(useStream, options) {
  let shown;
  let waiting = [];
  const look = () => {
    waiting = waiting.filter(({ fits, done }) => !(fits(shown) && (done(shown), true)));
  };
  function Page() {
    shown = useStream(options);
    // A page reads what it shows: the older hook asks the server for that alone.
    void [shown.values, shown.messages, shown.interrupt];
    useEffect(look);
    return null;
  }
  const page = create(createElement(Page));
  return {
    get stream() {
      return shown;
    },
    until: (fits) =>
      new Promise((done, refuse) => {
        waiting.push({ fits, done });
        if (shown !== undefined) look();
        setTimeout(() => refuse(new Error(`never shown; now: ${describe(shown)}`)), LIMIT_MS).unref();
      }),
    close: () => page.unmount(),
  };
}

const settled = (stream) => !stream.isLoading && !stream.isThreadLoading;
const clientOf = (address) => new Client({ apiUrl: address, apiKey: null });

function flowsOf(useStream, { answer, joining, submitted }) {
  const page = (address, assistantId, more = {}) =>
    open(useStream, { apiUrl: address, apiKey: null, assistantId, ...more });

  async function submit(address) {
    const one = page(address, "log");
    await one.until((stream) => stream !== undefined);
    one.stream.submit(NEW);
    await one.until((stream) => settled(stream) && stream.values?.log?.length === 3);
    assert.deepEqual(one.stream.values.log, DONE);
    assert.equal(one.stream.error, undefined);
    one.close();
  }

  async function messages(address) {
    const one = page(address, "talk");
    await one.until((stream) => stream !== undefined);
    one.stream.submit({ messages: [{ type: "human", content: "hi" }] });
    await one.until((stream) => settled(stream) && stream.messages.length === 2);
    assert.deepEqual(
      one.stream.messages.map((message) => message.text ?? message.content),
      ["hi", "Hello"],
    );
    one.close();
  }

  async function resume(address) {
    const one = page(address, "ask");
    await one.until((stream) => stream !== undefined);
    one.stream.submit(NEW);
    await one.until((stream) => settled(stream) && stream.interrupt !== undefined);
    assert.equal(one.stream.interrupt.value, "why?");
    answer(one.stream, "because");
    await one.until((stream) => settled(stream) && stream.values?.log?.length === 3);
    assert.equal(one.stream.values.log.at(-1), "answer: because");
    assert.equal(one.stream.interrupt, undefined);
    one.close();
  }

  async function reload(address) {
    // The page is closed while a question waits; a new page finds it and answers it.
    let threadId;
    const one = page(address, "ask", { onThreadId: (id) => (threadId = id) });
    await one.until((stream) => stream !== undefined);
    one.stream.submit(NEW);
    await one.until((stream) => settled(stream) && stream.interrupt !== undefined);
    one.close();
    const two = page(address, "ask", { threadId });
    await two.until((stream) => settled(stream) && stream.interrupt !== undefined);
    assert.equal(two.stream.interrupt.value, "why?");
    answer(two.stream, "later");
    await two.until((stream) => settled(stream) && stream.values?.log?.length === 3);
    assert.equal(two.stream.values.log.at(-1), "answer: later");
    two.close();
  }

  async function tools(address) {
    // A call of a tool and an answer; the page is closed in mid-answer, and a new one joins.
    let threadId;
    const text = (stream) => stream.messages.at(-1)?.text ?? stream.messages.at(-1)?.content;
    const options = joining();
    const one = page(address, "words", { ...options, onThreadId: (id) => (threadId = id) });
    await one.until((stream) => stream !== undefined);
    one.stream.submit(QUESTION, submitted);
    await write(address, 2);
    await one.until((stream) => text(stream)?.startsWith("It rains"));
    one.close();
    const two = page(address, "words", { ...options, threadId });
    await two.until((stream) => stream !== undefined);
    await write(address, 2);
    await two.until((stream) => settled(stream) && text(stream) === ANSWER);
    const [asks] = two.stream.messages.filter((message) => message.tool_calls?.length > 0);
    const { name, args } = asks.tool_calls[0];
    assert.deepEqual({ name, args }, CALL);
    assert.equal(two.stream.messages.length, 4);
    two.close();
  }

  async function error(address) {
    const one = page(address, "fail");
    await one.until((stream) => stream !== undefined);
    one.stream.submit(NEW);
    await one.until((stream) => settled(stream) && stream.error !== undefined);
    assert.match(String(one.stream.error?.message ?? one.stream.error), /broken/);
    one.close();
  }

  async function cancel(address) {
    let threadId;
    const one = page(address, "sleep", { onThreadId: (id) => (threadId = id) });
    await one.until((stream) => stream !== undefined);
    one.stream.submit(NEW);
    await one.until((stream) => stream.values?.log?.length === 2);
    await one.stream.stop();
    await one.until(settled);
    const client = clientOf(address);
    for (;;) {
      const [run] = await client.runs.list(threadId);
      if (run.status !== "running" && run.status !== "pending") {
        assert.equal(run.status, "interrupted");
        break;
      }
    }
    one.close();
  }

  return { submit, messages, resume, reload, tools, error, cancel };
}

/** A second page that opens a thread with a running run sees it end. */
async function join(address) {
  let threadId;
  const options = { apiUrl: address, apiKey: null, assistantId: "wait" };
  const one = open(useCurrent, { ...options, onThreadId: (id) => (threadId = id) });
  await one.until((stream) => stream !== undefined);
  one.stream.submit(NEW);
  await one.until((stream) => stream.values?.log?.length === 2);
  const two = open(useCurrent, { ...options, threadId });
  await two.until((stream) => stream.values?.log?.length === 2 && stream.isLoading);
  await fetch(`${address}/open`, { method: "POST" });
  await two.until((stream) => settled(stream) && stream.values?.log?.length === 3);
  await one.until((stream) => settled(stream) && stream.values?.log?.length === 3);
  one.close();
  two.close();
}

/** A run from an older checkpoint replaces what followed it. */
async function fork(address) {
  let threadId;
  const options = { apiUrl: address, apiKey: null, assistantId: "log" };
  const one = open(useCurrent, { ...options, onThreadId: (id) => (threadId = id) });
  await one.until((stream) => stream !== undefined);
  one.stream.submit(NEW);
  await one.until((stream) => settled(stream) && stream.values?.log?.length === 3);
  const history = await clientOf(address).threads.getHistory(threadId);
  const before = history.find((state) => state.next.includes("__start__"));
  one.stream.submit({ log: ["edited"] }, { forkFrom: before.checkpoint.checkpoint_id });
  await one.until((stream) => settled(stream) && stream.values?.log?.[0] === "edited" && stream.values.log.length === 3);
  assert.deepEqual(one.stream.values.log, ["edited", "first", "second"]);
  one.close();
}

export const current = {
  ...flowsOf(useCurrent, {
    answer: (stream, text) => stream.respond(text, { interruptId: stream.interrupt.id }),
    joining: () => ({}),
  }),
  join,
  fork,
};
export const older = flowsOf(useOlder, {
  answer: (stream, text) => stream.submit(undefined, { command: { resume: text } }),
  // It knows its run from a storage of the browser, if there is one.
  joining: () => {
    globalThis.window = globalThis;
    const kept = new Map();
    const storage = {
      getItem: (key) => kept.get(key) ?? null,
      setItem: (key, value) => kept.set(key, value),
      removeItem: (key) => kept.delete(key),
    };
    return { reconnectOnMount: () => storage };
  },
  submitted: { streamResumable: true, onDisconnect: "continue" },
});
