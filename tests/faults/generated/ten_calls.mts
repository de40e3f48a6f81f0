// Ten and more calls through openapi-fetch with the types that openapi-typescript has generated.
// usage: node ten_calls.mjs ADDRESS
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths } from "./api.d.ts";

const client = createClient<paths>({ baseUrl: process.argv[2] });
const at = { params: { path: { thread_id: "t" } } };

const made = await client.POST("/threads", { body: { thread_id: "t" } });
assert.equal(made.data?.thread_id, "t");

const ran = await client.POST("/threads/{thread_id}/runs/wait", {
  ...at,
  body: { assistant_id: "log", input: { foo: "a" } },
});
assert.deepEqual(ran.data, { foo: "a", log: ["first", "second"] });

const runs = await client.GET("/threads/{thread_id}/runs", at);
assert.deepEqual(runs.data?.map((run) => run.status), ["success"]);

const state = await client.GET("/threads/{thread_id}/state", at);
assert.deepEqual(state.data?.next, []);

const history = await client.POST("/threads/{thread_id}/history", { ...at, body: { limit: 2 } });
assert.equal(history.data?.length, 2);

const found = await client.POST("/threads/search", { body: { limit: 5 } });
assert.deepEqual(found.data?.map((thread) => thread.thread_id), ["t"]);

const count = await client.POST("/threads/count", { body: { status: "idle" } });
assert.equal(count.data, 1);

const put = await client.PUT("/store/items", {
  body: { namespace: ["a"], key: "k", value: { n: 1 } },
});
assert.equal(put.response.status, 204);

const kept = await client.GET("/store/items", { params: { query: { key: "k", namespace: "a" } } });
assert.deepEqual(kept.data?.value, { n: 1 });

const items = await client.POST("/store/items/search", { body: { namespace_prefix: ["a"] } });
assert.deepEqual(items.data?.items.map((one) => one.key), ["k"]);

const assistants = await client.POST("/assistants/search", { body: { graph_id: "log" } });
assert.deepEqual(assistants.data?.map((one) => one.graph_id), ["log"]);

const removed = await client.DELETE("/threads/{thread_id}", at);
assert.equal(removed.response.status, 204);

const gone = await client.GET("/threads/{thread_id}", at);
assert.equal(gone.response.status, 404);
assert.match(gone.error?.detail ?? "", /not found/);
