// Flows of a page, run by each client against a served system; prints one JSON line per flow.
//   node flows.mjs ADDRESS CLIENT [FLOW ...]
// A flow throws when something is not as it should be. CLIENT is one of `clients` below.
import assert from "node:assert/strict";
import * as sdk from "./sdk_flows.mjs";
import * as hooks from "./hook_flows.mjs";

const LIMIT_MS = 30_000;
const clients = { sdk: sdk.flows, react: hooks.current, "sdk-react": hooks.older };

const [address, client, ...chosen] = process.argv.slice(2);
const flows = clients[client];
assert(flows, `unknown client ${client}`);
let failed = 0;
for (const [name, flow] of Object.entries(flows)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue;
  const began = Date.now();
  let error = null;
  let timer;
  try {
    const late = new Promise((_, refuse) => {
      timer = setTimeout(() => refuse(new Error(`longer than ${LIMIT_MS} ms`)), LIMIT_MS);
    });
    await Promise.race([flow(address), late]);
  } catch (thrown) {
    failed += 1;
    error = thrown?.stack ?? String(thrown);
  } finally {
    clearTimeout(timer);
  }
  console.log(JSON.stringify({ flow: name, ms: Date.now() - began, error }));
}
process.exit(failed === 0 ? 0 : 1);
