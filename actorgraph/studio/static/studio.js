// The studio's own script: live states of nodes, tokens, and the refresh of the steps of a thread.
// Everything else is a form or a link that works by itself; htmx replaces parts of pages.
"use strict";

(function () {
  const REFRESH_MS = 250;

  function nodes(name) {
    return document.querySelectorAll('[data-node="' + CSS.escape(name) + '"]');
  }

  function mark(name, state) {
    for (const one of nodes(name)) {
      one.classList.remove("running", "done", "failed", "waiting", "sleeping");
      if (state) one.classList.add(state);
    }
  }

  function clear() {
    for (const one of document.querySelectorAll("[data-node]")) {
      one.classList.remove("running", "done", "failed", "waiting", "sleeping");
    }
  }

  // Marks that the server has rendered for the state that the page shows.
  function marked() {
    const list = document.querySelector("[data-marks]");
    if (!list) return;
    for (const part of JSON.parse(list.dataset.marks)) mark(part[0], part[1]);
  }

  function parsed(event) {
    try { return JSON.parse(event.data); } catch (error) { return null; }
  }

  function text(content) {
    if (typeof content === "string") return content;
    if (!Array.isArray(content)) return "";
    return content.map((part) => typeof part === "string" ? part : part.text || "").join("");
  }

  // Tokens of a message that is being written, below the stored ones: a bubble for each message.
  function bubbles() {
    const box = document.getElementById("tokens");
    const known = new Map();
    let last = "";

    function bubble(id) {
      if (known.has(id)) return known.get(id);
      const one = document.createElement("article");
      one.className = "message assistant typing";
      const said = document.createElement("div");
      said.className = "said";
      one.append(said);
      box.append(one);
      known.set(id, one);
      return one;
    }

    function remove(id) {
      const one = known.get(id);
      if (one) one.remove();
      known.delete(id);
      if (box) box.classList.toggle("idle", !known.size);
    }

    // A piece is a message with its metadata, or the text that follows in the last one.
    function hear(data) {
      const piece = Array.isArray(data) ? data[0] : data;
      if (!box || !piece || typeof piece !== "object") return;
      const kind = String(piece.type || "");
      if (kind && !/^(ai|assistant)/i.test(kind)) return;
      last = piece.id || last;
      const words = text(piece.content);
      if (!words || document.querySelector('[data-message="' + CSS.escape(last) + '"]')) return;
      const said = bubble(last).firstChild;
      said.textContent = kind && !/chunk$/i.test(kind) ? words : said.textContent + words;
      box.classList.remove("idle");
      follow();
    }

    function settle(all) {
      for (const id of [...known.keys()]) {
        const stored = document.querySelector('[data-message="' + CSS.escape(id) + '"]');
        if (all || stored) remove(id);
      }
    }

    return { hear: hear, settle: settle, drop: remove };
  }

  let isAtEnd = true;

  // A list of messages stays at its end while it grows, unless one has scrolled up.
  function follow() {
    const list = document.querySelector("[data-scroll]");
    if (list && isAtEnd) list.scrollTop = list.scrollHeight;
  }

  document.addEventListener("scroll", function (event) {
    const list = event.target;
    if (!list.matches || !list.matches("[data-scroll]")) return;
    isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  }, true);

  // A form that somebody fills in is not replaced.
  function isBusy(target) {
    if (!target || !target.querySelector) return false;
    return target.querySelector("[data-touched]") !== null ||
      (target.contains(document.activeElement) && target.id === "asked" &&
       document.activeElement.closest("form") !== null);
  }

  document.addEventListener("input", function (event) {
    const form = event.target.form;
    if (form) form.dataset.touched = "";
  });
  function keep(event) {
    if (isBusy(event.detail.target)) event.detail.shouldSwap = false;
  }
  document.addEventListener("htmx:beforeSwap", keep);
  document.addEventListener("htmx:oobBeforeSwap", keep);

  function live(box) {
    const said = document.getElementById("live-status");
    const written = bubbles();
    let waiting = null, ended = false;

    // The page is what the server has stored: events only say that it is worth a look.
    function refresh() {
      if (waiting) return;
      waiting = setTimeout(function () {
        waiting = null;
        document.body.dispatchEvent(new CustomEvent("studio:changed"));
      }, REFRESH_MS);
    }

    function say(what) { if (said) said.textContent = what; }

    document.addEventListener("htmx:afterSettle", function (event) {
      if (event.target.id === "talk" || event.detail.target.id === "talk") written.settle(ended);
    });
    const source = new EventSource(box.dataset.stream);
    // A run may have ended between the page and its stream, or while the stream was broken.
    source.addEventListener("open", refresh);
    source.addEventListener("metadata", function () {
      clear();
      written.settle(true);
      say("running");
      refresh();
    });
    source.addEventListener("tasks", function (event) {
      const task = parsed(event);
      if (!task || !task.name) return;
      mark(task.name, task.state);
      refresh();
    });
    function message(event) { written.hear(parsed(event)); }
    source.addEventListener("messages", message);
    source.addEventListener("messages/dropped", function (event) {
      for (const id of (parsed(event) || {}).ids || []) written.drop(id);
    });
    for (const kind of ["values", "updates", "custom", "checkpoints", "gap"]) {
      source.addEventListener(kind, refresh);
    }
    source.addEventListener("error", function (event) {
      if (event.data) { say("failed"); refresh(); }
    });
    // Without this the browser would ask again and again for a stream that has nothing more.
    source.addEventListener("end", function () {
      ended = true;
      source.close();
      say("ended");
      refresh();
      document.body.dispatchEvent(new CustomEvent("studio:ended"));
    });
    source.addEventListener("drain", refresh);
    window.addEventListener("pagehide", function () { source.close(); });
  }

  // Rows of lists: a copy of the template, whose "*" becomes the row's number in all names.
  function renamed(root, from, to) {
    for (const one of root.querySelectorAll("*")) {
      for (const name of ["name", "id", "data-rows", "aria-describedby"]) {
        const given = one.getAttribute(name);
        if (given && given.startsWith(from)) one.setAttribute(name, to + given.slice(from.length));
      }
      if (one.content) renamed(one.content, from, to);
    }
  }

  function add(button) {
    const rows = button.closest("[data-rows]");
    const list = rows.querySelector(":scope > .list");
    const number = Number(rows.dataset.next || list.children.length);
    const made = rows.querySelector(":scope > template").content.cloneNode(true);
    rows.dataset.next = String(number + 1);
    renamed(made, rows.dataset.rows + "/*", rows.dataset.rows + "/" + number);
    list.append(made);
    const first = list.lastElementChild.querySelector("input:not([type=hidden]), textarea, select");
    if (first) first.focus();
  }

  function zoom(button) {
    const picture = document.getElementById(button.getAttribute("aria-controls"));
    const now = picture.classList.toggle("zoomed");
    button.setAttribute("aria-pressed", String(now));
  }

  document.addEventListener("click", function (event) {
    const button = event.target.closest ? event.target.closest("[data-zoom]") : null;
    if (button) zoom(button);
    const more = event.target.closest ? event.target.closest("[data-add]") : null;
    if (more) add(more);
    const less = event.target.closest ? event.target.closest("[data-remove]") : null;
    if (less) less.closest(".row").remove();
    const asked = event.target.closest ? event.target.closest("[data-confirm]") : null;
    if (asked && !window.confirm(asked.dataset.confirm)) event.preventDefault();
  });
  document.addEventListener("htmx:afterSettle", function () { marked(); follow(); });
  document.addEventListener("DOMContentLoaded", function () {
    marked();
    follow();
    // The answer to a refused form is the page itself: a reload asks for the page, not again.
    const shown = document.body.dataset.shownAt;
    if (shown) history.replaceState(null, "", shown);
    const box = document.querySelector("[data-stream]");
    if (box) live(box);
  });
})();
