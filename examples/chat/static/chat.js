// The page: a login, the user's conversations, and one of them, with the run that is open in it.

import { fields } from "./form.js";
import { Messages } from "./messages.js";
import { follow, Refused } from "./stream.js";

const $ = (id) => document.getElementById(id);
const views = new Map(); // message id -> its element
const messages = new Messages(draw);
let chat = null; // the id of the conversation that is open; null for a new one
let run = null; // the id of the run that is followed
let leaving = new AbortController();
let spoken = 0; // characters of the current answer that screen readers were given

// --- requests ---

async function call(method, path, body) {
  const response = await fetch(`/api${path}`, {
    method,
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.status === 401) showLogin();
  const data = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) throw new Error(data?.detail?.[0]?.msg ?? data?.detail ?? "the server is away");
  return data;
}

/** Run an action of the user; what goes wrong is shown, and a second try is up to the user. */
async function attempt(action) {
  try {
    await action();
  } catch (error) {
    if (error.name !== "AbortError") status(`That didn't work: ${error.message}`);
  }
}

// --- messages ---

function draw(id) {
  const message = messages.all.get(id);
  let view = views.get(id);
  if (message === undefined) {
    view?.remove();
    views.delete(id);
    return;
  }
  const atEnd = isAtEnd();
  if (view === undefined) {
    view = document.createElement("li");
    view.className = message.type;
    const who = document.createElement("strong");
    who.className = "unseen";
    who.textContent = message.type === "human" ? "You: " : "Answer: ";
    const text = document.createElement("div");
    text.append("");
    view.append(who, text);
    views.set(id, view);
    $("messages").append(view);
    spoken = 0;
  }
  const node = view.lastChild.firstChild; // text alone: whatever a model writes stays text
  const shown = (message.cut ? "… " : "") + message.content;
  if (shown.startsWith(node.data)) node.appendData(shown.slice(node.data.length));
  else node.data = shown;
  view.classList.toggle("writing", !message.whole);
  if (!message.whole) speak(message.content);
  if (atEnd) toEnd();
}

/** Give screen readers whole sentences, not each word. */
function speak(text, isEnd = false) {
  const found = isEnd ? text.length : Math.max(...[". ", "? ", "! ", "\n"].map((end) => text.lastIndexOf(end))) + 1;
  if (found <= spoken) return;
  const line = document.createElement("p");
  line.textContent = text.slice(spoken, found);
  spoken = found;
  $("said").append(line);
}

const isAtEnd = () => {
  const box = $("scroll");
  return box.scrollHeight - box.scrollTop - box.clientHeight < 80;
};
const toEnd = () => $("scroll").scrollTo(0, $("scroll").scrollHeight);
const status = (text) => ($("status").textContent = text);

// --- a run ---

async function followRun(id) {
  const mine = leaving;
  run = id;
  busy(true);
  status("");
  let end = null;
  try {
    await follow(`/api/runs/${id}/events`, (name, data) => {
      messages.take(name, data);
      if (name === "drain") status("The server restarts; the answer goes on after it.");
      else if (name === "gap" && data.to === null) status("The server was restarted; the answer begins anew.");
      else if (name === "gap") status("Some of the answer was missed; it will be whole at its end.");
      else if (name === "error") status(`The answer failed: ${data.message}`);
      else if (name === "messages" && !messages.missed) status("");
      else if (name === "end") end = data;
    }, (isLive) => status(isLive ? "" : "Connection lost. Trying again…"), mine.signal);
  } catch (error) {
    if (mine.signal.aborted) return;
    status(error instanceof Refused ? "This answer can't be followed any more." : error.message);
    if (error.status === 401) showLogin();
  }
  await ended(mine, end);
}

async function ended(mine, end) {
  const current = messages.all.get(messages.current);
  if (current && !current.whole) speak(current.content, true);
  const cut = end?.status === "cancelled" ? [...messages.all.values()].filter((one) => !one.whole) : [];
  run = null;
  busy(false);
  await load(mine);
  for (const one of cut) { // what was stopped isn't stored: it is here until the page is left
    messages.add({ ...one, type: "ai stopped" });
  }
  if (end?.status === "cancelled") status("Stopped.");
}

function busy(is) {
  $("stop").hidden = !is;
  $("send").hidden = is;
  $("messages").ariaBusy = is;
}

// --- conversations ---

/** Show what is stored of the conversation, and follow its run if it has one. */
async function load(mine) {
  for (let wait = 250; ; wait = Math.min(wait * 2, 4000)) {
    try {
      const stored = await call("GET", `/chats/${chat}`);
      if (mine.signal.aborted) return;
      messages.missed = false;
      messages.replace(stored.messages);
      $("title").textContent = stored.messages[0]?.content.slice(0, 80) ?? "New conversation";
      ask(stored.questions);
      if (stored.run) followRun(stored.run);
      break;
    } catch (error) {
      if (!(error instanceof TypeError) || mine.signal.aborted) throw error; // not the network
      status("Connection lost. Trying again…");
      await new Promise((done) => setTimeout(done, wait));
    }
  }
  if (run === null) listChats();
}

async function open(id) {
  leaving.abort();
  leaving = new AbortController();
  chat = id;
  run = null;
  busy(false);
  status("");
  ask([]);
  $("said").replaceChildren();
  messages.replace([]);
  $("title").textContent = "New conversation";
  menu(false);
  mark();
  if (id !== null) await attempt(() => load(leaving));
  toEnd();
}

async function listChats() {
  const { user, chats } = await call("GET", "/chats");
  $("login").hidden = true;
  $("app").hidden = false;
  $("user").textContent = user;
  $("chats").replaceChildren(...chats.map(({ id, title, phase }) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `#${id}`;
    link.textContent = title;
    item.append(link);
    if (phase === "waiting") {
      const mark = document.createElement("small");
      mark.textContent = "asks you";
      link.append(" ", mark);
    }
    return item;
  }));
  mark();
}

function mark() {
  for (const link of $("chats").querySelectorAll("a")) {
    if (link.hash === `#${chat}`) link.ariaCurrent = "page";
    else link.removeAttribute("aria-current");
  }
}

async function send() {
  const text = $("text").value.trim();
  if (text === "" || run !== null) return;
  if (chat === null) {
    chat = (await call("POST", "/chats")).id;
    history.replaceState(null, "", `#${chat}`);
    $("title").textContent = text.slice(0, 80);
  }
  const started = await call("POST", `/chats/${chat}/messages`, { text });
  $("text").value = "";
  ask([]);
  $("said").replaceChildren();
  messages.add({ id: started.message, type: "human", content: text });
  toEnd();
  followRun(started.run);
  listChats();
}

// --- questions ---

function ask(questions) {
  const form = $("question");
  form.hidden = questions.length === 0;
  form.replaceChildren();
  if (questions.length === 0) return;
  const [{ id, text, schema }] = questions; // the next one follows when this one is answered
  const heading = document.createElement("h2");
  heading.textContent = text;
  const wrong = document.createElement("p");
  wrong.setAttribute("role", "alert");
  const button = document.createElement("button");
  button.textContent = "Answer";
  form.append(heading);
  const read = fields(schema ?? { type: "string" }, form);
  form.append(wrong, button);
  form.onsubmit = async (event) => {
    event.preventDefault();
    wrong.textContent = "";
    try {
      const started = await call("POST", `/chats/${chat}/answers`, { answers: { [id]: read() } });
      ask([]);
      $("text").focus();
      followRun(started.run);
    } catch (error) {
      wrong.textContent = error.message;
    }
  };
  form.querySelector("input, select")?.focus({ preventScroll: true });
  toEnd();
}

// --- login, theme, keys ---

async function showLogin() {
  leaving.abort();
  $("app").hidden = true;
  $("login").hidden = false;
  const users = await (await fetch("/api/users")).json();
  $("users").replaceChildren(...users.map((user) => {
    const button = document.createElement("button");
    button.textContent = user;
    button.onclick = () => attempt(async () => {
      await call("POST", "/login", { user });
      await start();
    });
    return button;
  }));
}

function theme(isDark) {
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  $("theme").ariaPressed = isDark;
}

function menu(isOpen) {
  $("side").classList.toggle("open", isOpen);
  $("menu").ariaExpanded = isOpen;
}

async function start() {
  await listChats();
  await open(location.hash.slice(1) || null);
  $("text").focus();
}

$("composer").onsubmit = (event) => {
  event.preventDefault();
  attempt(send);
};
$("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    attempt(send);
  }
};
const stop = () => run !== null && attempt(() => call("POST", `/runs/${run}/cancel`));
$("stop").onclick = stop;
document.onkeydown = (event) => {
  if (event.key !== "Escape") return;
  if ($("side").classList.contains("open")) menu(false);
  else stop();
};
$("new").onclick = () => {
  history.pushState(null, "", "#");
  open(null);
  $("text").focus();
};
$("menu").onclick = () => menu(!$("side").classList.contains("open"));
$("logout").onclick = () => attempt(async () => {
  await call("POST", "/logout");
  history.replaceState(null, "", "#");
  await showLogin();
});
$("theme").onclick = () => {
  const isDark = $("theme").ariaPressed !== "true";
  localStorage.setItem("theme", isDark ? "dark" : "light");
  theme(isDark);
};
onhashchange = () => open(location.hash.slice(1) || null);

const liked = matchMedia("(prefers-color-scheme: dark)");
const kept = localStorage.getItem("theme");
theme(kept === null ? liked.matches : kept === "dark");
liked.onchange = () => localStorage.getItem("theme") ?? theme(liked.matches);
start().catch(() => {});
