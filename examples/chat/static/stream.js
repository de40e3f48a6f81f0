// Follows the events of a run until its end, over lost connections and restarts of the server.

const WAIT_MS = 250; // before the first new try; then twice as long each time
const WAIT_MAX_MS = 4000;
const SILENCE_MS = 25000; // the server sends a comment every 10 seconds: longer, and it is gone

/** The server refuses this client: a new try would be refused too. */
export class Refused extends Error {
  constructor(status) {
    super(`refused with status ${status}`);
    this.status = status;
  }
}

/**
 * Call `take(name, data)` for each event, in order and once; returns after the last one.
 *
 * A new connection asks for the events after the last one that was taken (`Last-Event-ID`).
 * `live(isLive)` is called when the connection is there, and when it is lost.
 */
export async function follow(url, take, live, signal) {
  let last = null;
  let wait = WAIT_MS;
  for (;;) {
    try {
      for await (const event of connection(url, last, live, signal)) {
        take(event.name, JSON.parse(event.data));
        last = event.id ?? last;
        wait = WAIT_MS;
        if (event.name === "end") return;
      }
    } catch (error) {
      if (signal.aborted || error instanceof Refused) throw error;
      if (error instanceof Ended) return;
    }
    signal.throwIfAborted();
    live(false);
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, WAIT_MAX_MS);
  }
}

class Ended extends Error {}

async function* connection(url, last, live, signal) {
  const leaving = new AbortController();
  const alarm = () => setTimeout(() => leaving.abort(), SILENCE_MS);
  let silence = alarm();
  try {
    const response = await fetch(url, {
      headers: last === null ? {} : { "Last-Event-ID": last },
      cache: "no-store",
      signal: AbortSignal.any([signal, leaving.signal]),
    });
    if (response.status === 204) throw new Ended(); // this client has the end already
    if ([401, 403, 404].includes(response.status)) throw new Refused(response.status);
    if (!response.ok) throw new Error(`status ${response.status}`); // busy, or still starting
    live(true);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return; // an event that is cut off is sent again
      clearTimeout(silence);
      silence = alarm();
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const event = parsed(block);
        if (event.data) yield event;
      }
    }
  } finally {
    clearTimeout(silence);
    leaving.abort();
  }
}

function parsed(block) {
  const event = { name: "message", data: "", id: null };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(": ");
    const value = line.slice(colon + 2);
    if (line.startsWith("id: ")) event.id = value;
    else if (line.startsWith("event: ")) event.name = value;
    else if (line.startsWith("data: ")) event.data += value;
  }
  return event;
}
