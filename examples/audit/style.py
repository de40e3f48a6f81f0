"""The CSS and the few lines of script of the HTML report, kept apart from what fills it."""

CSS = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1c2330; --soft: #667085; --line: #e3e7ee;
  --accent: #2563a8; --split: #c8374a; --document: #2f7fb8; --watch: #d98e04;
  --accept: #3c9a5f; --waiting: #8456c4; --below: #a9b3c1;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #11151c; --card: #1a2029; --ink: #e7ebf2; --soft: #97a3b6; --line: #2c3542;
    --accent: #7db4ec; --split: #f0707f; --document: #62b0e8; --watch: #f2b544;
    --accept: #67c48b; --waiting: #b594ec; --below: #5d6a7d;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 1080px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -0.02em; }
h2 { font-size: 18px; margin: 0 0 4px; }
p { margin: 0 0 14px; color: var(--soft); max-width: 76ch; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 20px 22px; margin-top: 18px; overflow-x: auto; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(128px, 1fr)); gap: 12px;
  margin-top: 22px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 14px 16px; }
.tile b { display: block; font-size: 23px; line-height: 1.2; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.chart { width: 100%; height: auto; display: block; margin-top: 8px; }
.chart circle { fill-opacity: .62; stroke: var(--card); stroke-width: 1; }
.chart circle:hover { fill-opacity: 1; stroke: var(--ink); }
.chart .grid { stroke: var(--line); } .chart .threshold { stroke: var(--soft);
  stroke-dasharray: 4 4; }
.chart text { font-size: 12px; fill: var(--soft); } .chart .name { fill: var(--ink); }
circle.split { fill: var(--split); } circle.document { fill: var(--document); }
circle.watch { fill: var(--watch); } circle.accept { fill: var(--accept); }
circle.waiting { fill: var(--waiting); } circle.below { fill: var(--below); }
.legend { display: flex; flex-wrap: wrap; gap: 6px 18px; font-size: 13px; color: var(--soft); }
.mark { display: inline-block; width: 10px; height: 10px; border-radius: 50%;
  margin-right: 6px; background: var(--below); }
.mark.split { background: var(--split); } .mark.document { background: var(--document); }
.mark.watch { background: var(--watch); } .mark.accept { background: var(--accept); }
.mark.waiting { background: var(--waiting); }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: 12.5px; }
th, td { padding: 6px 8px; border-bottom: 1px solid var(--line); white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
th.sorts { cursor: pointer; } th.sorts:hover { color: var(--ink); }
th[aria-sort=ascending]::after { content: " \\2191"; }
th[aria-sort=descending]::after { content: " \\2193"; }
code { font: 13px/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.place { color: var(--soft); }
.risk { display: inline-block; width: 90px; height: 7px; border-radius: 4px; margin-left: 10px;
  background: var(--line); overflow: hidden; vertical-align: middle; }
.risk i { display: block; height: 100%; background: var(--accent); }
input { font: inherit; color: inherit; background: var(--page); border: 1px solid var(--line);
  border-radius: 8px; padding: 6px 12px; width: 240px; margin: 6px 0 10px; }
.run { color: var(--soft); } .run td:first-child { color: var(--ink); width: 220px; }
@media print { section { break-inside: avoid; } input { display: none; } }
"""

# Sorts the table of packages by a click on a head, and filters it by name.
SCRIPT = """
const table = document.getElementById("packages"), body = table.tBodies[0];
const value = (row, at) => row.cells[at].dataset.value ?? row.cells[at].textContent;
table.querySelectorAll("th").forEach((head, at) => {
  head.classList.add("sorts");
  head.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") !== "descending";
    table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].sort((a, b) =>
      value(a, at).localeCompare(value(b, at), undefined, { numeric: true }));
    body.append(...(down ? rows.reverse() : rows));
  });
});
document.getElementById("filter").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const row of body.rows)
    row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
});
"""
