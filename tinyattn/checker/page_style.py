"""The style of HTML pages about gradients: light and dark, tables that become lists on a phone."""

STYLE = """
:root { color-scheme: light dark; --page: #fbfaf8; --card: #ffffff; --ink: #1d1d1b; --soft: #6b6862;
  --line: #e2dfd9; --double: #0b62a8; --single: #b4530a; --exact: #2f7d32; --bad: #b3261e; --band: #f3f1ed; }
@media (prefers-color-scheme: dark) { :root { --page: #151617; --card: #1d1f21; --ink: #e8e6e3; --soft: #a09c95;
  --line: #34373a; --double: #6cb6f5; --single: #f0a35e; --exact: #7fce82; --bad: #ff8a80; --band: #24272a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 3rem 0 .5rem; }
p { max-width: 46rem; margin: .5rem 0 1rem; }
.verdict { font-weight: 600; color: var(--exact); } .verdict.bad { color: var(--bad); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .35rem .9rem; text-align: right; white-space: nowrap; }
th { font-weight: 600; color: var(--soft); border-bottom: 1px solid var(--line); position: sticky; top: 0;
  background: var(--card); }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
tbody tr:nth-child(even) { background: var(--band); }
td.bad { color: var(--bad); font-weight: 600; } td.good { color: var(--exact); }
a { color: inherit; text-decoration-color: var(--soft); text-underline-offset: 3px; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; padding: .75rem .75rem .5rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; scroll-margin-top: 1rem; }
figure:target { outline: 2px solid var(--double); }
figcaption { display: flex; justify-content: space-between; gap: 1rem; font-weight: 600; font-size: .95rem; }
figcaption span { font-weight: 400; color: var(--soft); font-size: .8rem; align-self: end; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 10.5px; }
.frame { fill: none; stroke: var(--line); } .grid { stroke: var(--line); stroke-width: 1; }
.double, .single { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.double { stroke: var(--double); } .single { stroke: var(--single); }
.exact { stroke: var(--exact); stroke-width: 2; stroke-dasharray: 2 4; stroke-linecap: round; }
.law { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 4 3; }
.best { fill: var(--card); stroke: var(--double); stroke-width: 2; }
.legend { display: flex; flex-wrap: wrap; gap: .4rem 1.5rem; font-size: .9rem; margin: .5rem 0 1rem; padding: 0; }
.legend li { list-style: none; display: flex; align-items: center; gap: .5rem; }
.legend svg { width: 34px; height: 10px; flex: none; }
@media (max-width: 44rem) { /* a check takes a few lines, each number with its name, instead of a row that is cut off */
  .scroll { overflow-x: visible; } table, tbody { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tbody tr { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 0 1.5rem;
    padding: .6rem .8rem; }
  td { display: flex; justify-content: space-between; gap: .5rem; padding: 0; white-space: normal; }
  td::before { content: attr(data-name); color: var(--soft); font-weight: 400; }
  td:first-child { grid-column: 1 / -1; font-weight: 600; overflow-wrap: anywhere; }
  td:first-child::before, td:last-child::before { content: none; }
}
pre { overflow-x: auto; padding: 1rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  font-size: .85rem; }
"""
