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
      one.classList.remove("running", "done", "failed", "waiting");
      if (state) one.classList.add(state);
    }
  }

  function clear() {
    for (const one of document.querySelectorAll("[data-node]")) {
      one.classList.remove("running", "done", "failed", "waiting");
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

  function live(box) {
    const tokens = document.getElementById("tokens");
    const said = document.getElementById("live-status");
    let waiting = null;

    // The page is what the server has stored: events only say that it is worth a look.
    function refresh() {
      if (waiting) return;
      waiting = setTimeout(function () {
        waiting = null;
        document.body.dispatchEvent(new CustomEvent("studio:changed"));
      }, REFRESH_MS);
    }

    function say(what) { if (said) said.textContent = what; }

    const source = new EventSource(box.dataset.stream);
    // A run may have ended between the page and its stream, or while the stream was broken.
    source.addEventListener("open", refresh);
    source.addEventListener("metadata", function () {
      clear();
      if (tokens) { tokens.textContent = ""; tokens.classList.add("idle"); }
      say("running");
      refresh();
    });
    source.addEventListener("tasks", function (event) {
      const task = parsed(event);
      if (!task || !task.name) return;
      if (task.error) mark(task.name, "failed");
      else if (task.interrupts && task.interrupts.length) mark(task.name, "waiting");
      else if ("result" in task) mark(task.name, "done");
      else mark(task.name, "running");
      refresh();
    });
    function message(event) {
      const data = parsed(event);
      const first = Array.isArray(data) ? data[0] : null;
      if (!first || !tokens) return;
      tokens.classList.remove("idle");
      tokens.textContent += text(first.content);
    }
    source.addEventListener("messages", message);
    source.addEventListener("messages-tuple", message);
    for (const kind of ["values", "updates", "custom", "checkpoints", "gap"]) {
      source.addEventListener(kind, refresh);
    }
    source.addEventListener("error", function (event) {
      if (event.data) { say("failed"); refresh(); }
    });
    source.addEventListener("end", function () { say("ended"); refresh(); });
    source.addEventListener("drain", refresh);
    window.addEventListener("pagehide", function () { source.close(); });
  }

  function zoom(button) {
    const picture = document.getElementById(button.getAttribute("aria-controls"));
    const now = picture.classList.toggle("zoomed");
    button.setAttribute("aria-pressed", String(now));
  }

  document.addEventListener("click", function (event) {
    const button = event.target.closest ? event.target.closest("[data-zoom]") : null;
    if (button) zoom(button);
    const asked = event.target.closest ? event.target.closest("[data-confirm]") : null;
    if (asked && !window.confirm(asked.dataset.confirm)) event.preventDefault();
  });
  document.addEventListener("htmx:afterSettle", marked);
  document.addEventListener("DOMContentLoaded", function () {
    marked();
    const box = document.querySelector("[data-stream]");
    if (box) live(box);
  });
})();
