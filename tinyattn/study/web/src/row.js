// One row, backward through softmax: bar charts over its keys, scores that can be dragged, the change of the loss and
// its linearization, and the Jacobian of the row.
import { axisBottom, axisLeft } from "d3-axis";
import { drag } from "d3-drag";
import { scaleBand, scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import { line } from "d3-shape";
import { largest, paint } from "./color.js";
import { completed } from "./data.js";
import { element, glyph, label, number, spoken } from "./show.js";
import { dot, jacobian, softmax, sum } from "./softmax.js";

const TRACKS = [
  { key: "S", name: "score s", signed: true },
  { key: "P", name: "probability p = softmax(s)", signed: false },
  { key: "dP", name: "incoming gradient g = dL/dp", signed: true },
  { key: "centered", name: "g less its mean Σpg", signed: true },
  { key: "dS", name: "outgoing dL/ds = p (g − Σpg)", signed: true },
];
const COLUMNS = [...TRACKS, { key: "PdP", name: "p·g" }];
const HEIGHT = 108;
const LEFT = 56;

export function mountRow(context) {
  const { page, store, theme, announce } = context;
  const body = document.querySelector("#row .body");
  const lead = element(
    "p",
    {},
    "Drag a score (or focus the scores and use the arrow keys: left and right select a key, up and down change its score). ",
    "The incoming gradient g is fixed, so that the layers above are linearized and only softmax changes. Exact is the ",
    "change of Σ p g through softmax, linearized is its first-order approximation Σ dL/ds · Δs.",
  );
  const prompt = element("p", { class: "note" }, "Lock a row in the map or in the text to see it here.");
  const title = element("h3", {});
  const reset = element("button", { type: "button", id: "reset", onclick: () => restore() }, "Reset scores");
  const tracks = element("div", { class: "tracks" });
  const chosenText = element("p", { class: "readout", id: "chosen" });
  const sums = element("dl", { class: "sums" });
  const matrix = element("canvas", { class: "pixels" });
  const matrixText = element("p", { class: "readout" });
  const curve = element("div", { class: "curve" });
  const side = element(
    "div",
    { class: "side" },
    element("h4", {}, "Sums"),
    sums,
    element("h4", {}, "Change of the loss along the selected score"),
    element("ul", { class: "key" }, element("li", { class: "s0" }, "exact"), element("li", { class: "s1" }, "linearized")),
    curve,
    element("h4", {}, "Jacobian dp/ds of the row"),
    element("div", { class: "matrix" }, matrix),
    matrixText,
  );
  const table = element("div", { class: "scroll", tabindex: 0, "data-scrolls": true, role: "region", "aria-label": "Table of the locked row" });
  const details = element("details", { open: true }, element("summary", {}, "The locked row as a table"), table);
  const panel = element("div", { class: "panel" }, element("div", { class: "titlebar" }, title, reset), element("div", { class: "halves" }, element("div", {}, tracks, chosenText), side), details);
  body.append(lead, prompt, panel);

  let original = null; // the row of the model
  let current = null; // the row with changed scores
  let chosen = 0; // index of the selected key among the keys of the row

  function begin(state) {
    const { keys, S, dP } = page.row(state, state.row);
    original = { keys, ...completed(S, dP) };
    current = original;
    chosen = Math.min(chosen, keys.length - 1);
    const largestShare = original.P.indexOf(Math.max(...original.P));
    if (largestShare >= 0) chosen = largestShare;
  }

  function restore() {
    current = original;
    draw();
    announce("Scores reset");
  }

  function change(k, score) {
    const scores = Float64Array.from(current.S);
    scores[k] = score;
    current = { keys: original.keys, ...completed(scores, original.dP) };
    chosen = k;
    draw();
  }

  // The axis is fixed during a drag, so that the bar stays under the pointer.
  let heldDomain = null;

  function draw() {
    const state = store.get();
    title.textContent = `Layer ${state.layer}, head ${state.head}, row ${state.row} (${spoken(page.characters[state.row])})`;
    reset.disabled = current === original;
    drawTracks();
    const key = original.keys[chosen];
    const values = COLUMNS.map((one) => `${one.name.split(" = ")[0]} ${number(current[one.key][chosen])}`);
    chosenText.textContent = `Selected key ${key} (${spoken(page.characters[key])}): ${values.join(", ")}`;
    drawSums();
    drawCurve();
    drawMatrix();
    drawTable();
  }

  function drawTracks() {
    const width = Math.max(280, tracks.clientWidth);
    const { keys } = original;
    const x = scaleBand(keys.map((_, k) => k), [LEFT, width - 8]).paddingInner(keys.length > 60 ? 0.1 : 0.25);
    const svg = select(tracks).selectAll("svg").data([0]).join("svg").attr("width", width).attr("height", HEIGHT * TRACKS.length + (page.hasWords ? 66 : 30));
    const groups = svg.selectAll("g.track").data(TRACKS).join("g").attr("class", (track) => "track " + track.key);
    groups.attr("transform", (_, t) => `translate(0, ${t * HEIGHT + 4})`);
    groups.each(function (track) {
      drawTrack(select(this), track, x, width);
    });
    const letters = x.bandwidth() >= 7;
    const every = letters ? 1 : Math.ceil(keys.length / 16);
    const axis = axisBottom(x)
      .tickValues(keys.map((_, k) => k).filter((k) => k % every === 0))
      .tickFormat((k) => (letters ? label(page.characters[keys[k]]) : keys[k]))
      .tickSize(3);
    svg.selectAll("g.keys").data([0]).join("g").attr("class", "keys").attr("transform", `translate(0, ${HEIGHT * TRACKS.length + 4})`).call(axis);
    if (letters && page.hasWords) {
      svg.selectAll("g.keys .tick text").attr("transform", "rotate(-90)").attr("text-anchor", "end").attr("x", -6).attr("dy", "-0.35em");
    }
  }

  function drawTrack(group, track, x, width) {
    const values = current[track.key];
    const finite = [...values, ...original[track.key]].filter(Number.isFinite);
    let domain = [Math.min(0, ...finite), Math.max(0, ...finite)];
    if (track.key === "S") {
      // Margin above and below for dragging.
      const margin = Math.max(1, 0.25 * (domain[1] - domain[0]));
      domain = heldDomain ?? [domain[0] - margin, domain[1] + margin];
    }
    if (domain[0] === domain[1]) domain = [-1, 1];
    const y = scaleLinear(domain, [HEIGHT - 12, 16]);
    group.selectAll("text.name").data([0]).join("text").attr("class", "name").attr("x", LEFT).attr("y", 9).text(track.name);
    group.selectAll("g.axis").data([0]).join("g").attr("class", "axis").attr("transform", `translate(${LEFT - 4}, 0)`)
      .call(axisLeft(y).ticks(3).tickSize(3).tickFormat((tick) => number(tick, 2)));
    group.selectAll("line.zero").data([0]).join("line").attr("class", "zero").attr("x1", LEFT - 4).attr("x2", width - 8).attr("y1", y(0)).attr("y2", y(0));
    const bars = (name, data) =>
      group.selectAll("rect." + name).data(Array.from(data)).join("rect").attr("class", (value, k) => `${name} ${value < 0 ? "negative" : "positive"} ${k === chosen ? "chosen" : ""}`)
        .attr("x", (_, k) => x(k)).attr("width", Math.max(1, x.bandwidth()))
        .attr("y", (value) => (Number.isFinite(value) ? Math.min(y(0), y(value)) : y(0)))
        .attr("height", (value) => (Number.isFinite(value) ? Math.abs(y(value) - y(0)) : 0));
    bars("bar", values);
    bars("ghost", current === original || track.key === "dP" ? [] : original[track.key]).attr("aria-hidden", "true");
    if (track.key === "dP") {
      group.selectAll("line.mean").data([current.mean]).join("line").attr("class", "mean").attr("x1", LEFT).attr("x2", width - 8).attr("y1", y).attr("y2", y);
    }
    if (track.key === "S") drawHandles(group, x, y, width);
  }

  function drawHandles(group, x, y, width) {
    const movable = drag()
      .subject((event, [k]) => ({ x: x(k), y: y(current.S[k]) }))
      .on("start", () => (heldDomain = y.domain()))
      .on("drag", (event, [k]) => change(k, Math.min(y.domain()[1], Math.max(y.domain()[0], y.invert(event.y)))))
      .on("end", () => {
        heldDomain = null;
        draw();
      });
    const entries = Array.from(current.S, (score, k) => [k, score]).filter(([, score]) => Number.isFinite(score));
    // The whole column is the drag handle, so that thin bars are easy to grab.
    group.selectAll("rect.handle").data(entries, ([k]) => k).join("rect").attr("class", "handle").attr("data-key", ([k]) => k)
      .attr("x", ([k]) => x(k) - (x.step() - x.bandwidth()) / 2).attr("width", x.step()).attr("y", 10).attr("height", HEIGHT - 16)
      .on("click", (_, [k]) => choose(k))
      .call(movable);
    group.selectAll("line.grip").data(entries, ([k]) => k).join("line").attr("class", ([k]) => "grip" + (k === chosen ? " chosen" : ""))
      .attr("x1", ([k]) => x(k) - 1).attr("x2", ([k]) => x(k) + x.bandwidth() + 1).attr("y1", ([, score]) => y(score)).attr("y2", ([, score]) => y(score));
    const score = current.S[chosen];
    const key = original.keys[chosen];
    group.selectAll("rect.slider").data([0]).join("rect").attr("class", "slider").attr("x", LEFT - 2).attr("y", 12).attr("width", width - LEFT - 4).attr("height", HEIGHT - 20)
      .attr("tabindex", 0).attr("role", "slider").attr("aria-label", `score of key ${key}, ${spoken(page.characters[key])}`)
      .attr("aria-orientation", "vertical").attr("aria-valuemin", -50).attr("aria-valuemax", 50)
      .attr("aria-valuenow", Number.isFinite(score) ? Number(score.toFixed(4)) : -50)
      .attr("aria-valuetext", `score ${number(score)}, probability ${number(current.P[chosen])}, outgoing gradient ${number(current.dS[chosen])}`)
      .on("keydown", steer).lower();
  }

  function choose(k) {
    chosen = k;
    draw();
  }

  function steer(event) {
    const across = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const along = { ArrowUp: 0.1, ArrowDown: -0.1, PageUp: 1, PageDown: -1 }[event.key];
    if (!across && !along) return;
    event.preventDefault();
    if (across) choose(Math.min(original.keys.length - 1, Math.max(0, chosen + across)));
    else if (Number.isFinite(current.S[chosen])) change(chosen, current.S[chosen] + along);
  }

  function drawSums() {
    const moved = current.S.map((score, k) => (Number.isFinite(score) ? score - original.S[k] : 0));
    const exact = dot(current.P, original.dP) - dot(original.P, original.dP);
    const linear = dot(original.dS, moved);
    const rows = [
      ["sum-p", "Σ p", sum(current.P), "must be 1"],
      ["mean", "Σ p g, the mean subtracted", current.mean, ""],
      ["sum-ds", "Σ dL/ds", sum(current.dS), "must be 0"],
      ["exact", "change of Σ p g, exact", exact, ""],
      ["linear", "change, linearized: Σ dL/ds · Δs", linear, ""],
    ];
    sums.replaceChildren(
      ...rows.flatMap(([id, name, value, note]) => [
        element("dt", {}, name),
        element("dd", {}, element("output", { id, "data-value": value }, number(value, 7)), note && element("span", { class: "note" }, " " + note)),
      ]),
    );
  }

  function drawCurve() {
    const width = Math.max(220, curve.clientWidth);
    const height = 150;
    const base = dot(original.P, original.dP);
    const reach = Math.max(4, Math.abs(current.S[chosen] - original.S[chosen]) * 1.1 || 0);
    const deltas = Array.from({ length: 81 }, (_, m) => -reach + (2 * reach * m) / 80);
    const along = (delta) => {
      const scores = Float64Array.from(original.S);
      scores[chosen] += delta;
      return dot(softmax(scores), original.dP) - base;
    };
    const exact = deltas.map((delta) => [delta, along(delta)]);
    const linear = [-reach, reach].map((delta) => [delta, original.dS[chosen] * delta]);
    const highest = largest(exact.map(([, value]) => value)) || 1;
    const x = scaleLinear([-reach, reach], [LEFT, width - 8]);
    const y = scaleLinear([-1.25 * highest, 1.25 * highest], [height - 24, 8]);
    const path = line(([delta]) => x(delta), ([, value]) => y(value));
    const svg = select(curve).selectAll("svg").data([0]).join("svg").attr("width", width).attr("height", height).attr("role", "img")
      .attr("aria-label", `Change of the loss along the score of key ${original.keys[chosen]}: a curve, and its tangent with slope ${number(original.dS[chosen])}`);
    svg.selectAll("clipPath").data([0]).join("clipPath").attr("id", "curve-area").selectAll("rect").data([0]).join("rect").attr("x", LEFT).attr("y", 4).attr("width", width - LEFT - 8).attr("height", height - 26);
    svg.selectAll("path").data([["linear", linear], ["exact", exact]]).join("path").attr("class", ([name]) => name).attr("clip-path", "url(#curve-area)").attr("d", ([, points]) => path(points));
    const moved = Number.isFinite(current.S[chosen]) ? current.S[chosen] - original.S[chosen] : 0;
    svg.selectAll("circle").data([moved]).join("circle").attr("r", 4).attr("cx", x).attr("cy", (delta) => y(along(delta)));
    svg.selectAll("g.axis.x").data([0]).join("g").attr("class", "axis x").attr("transform", `translate(0, ${height - 22})`).call(axisBottom(x).ticks(5).tickSize(3));
    svg.selectAll("g.axis.y").data([0]).join("g").attr("class", "axis y").attr("transform", `translate(${LEFT}, 0)`).call(axisLeft(y).ticks(4).tickSize(3).tickFormat((tick) => number(tick, 2)));
  }

  function drawMatrix() {
    const size = original.keys.length;
    const values = jacobian(current.P);
    const limit = largest(values);
    paint(matrix, values, size, limit, true, theme());
    matrix.setAttribute("role", "img");
    matrix.setAttribute("aria-label", `Jacobian, ${size} by ${size}, largest entry ${number(limit)}`);
    const norm = Math.sqrt(dot(values, values));
    const idle = `dp_j/ds_k = p_j (δ_jk − p_k); largest entry ${number(limit)}, Frobenius norm ${number(norm)}`;
    matrixText.textContent = idle;
    matrix.onpointerleave = () => (matrixText.textContent = idle);
    matrix.onpointermove = (event) => {
      const box = matrix.getBoundingClientRect();
      const j = Math.min(size - 1, Math.floor(((event.clientY - box.top) / box.height) * size));
      const k = Math.min(size - 1, Math.floor(((event.clientX - box.left) / box.width) * size));
      if (j >= 0 && k >= 0) matrixText.textContent = `dp/ds at keys ${original.keys[j]}, ${original.keys[k]}: ${number(values[j * size + k])}`;
    };
  }

  function drawTable() {
    const head = element("tr", {}, ...["key", page.unit, ...COLUMNS.map((one) => one.name)].map((name) => element("th", { scope: "col" }, name)));
    const rows = original.keys.map((key, k) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, String(key)),
        element("td", {}, glyph(page.characters[key])),
        ...COLUMNS.map((one) => element("td", { "data-column": one.key, "data-value": current[one.key][k] }, number(current[one.key][k], 7))),
      ),
    );
    const caption = element("caption", {}, title.textContent + (current === original ? "" : ", with changed scores"));
    table.replaceChildren(element("table", { id: "row-table" }, caption, element("thead", {}, head), element("tbody", {}, ...rows)));
  }

  let shown = "";
  new ResizeObserver(() => original && store.get().row !== null && draw()).observe(body);

  return (state) => {
    panel.hidden = state.row === null;
    prompt.hidden = state.row !== null;
    if (state.row === null) return;
    const what = [state.layer, state.head, state.loss, state.step, state.row].join();
    if (what !== shown) begin(state);
    shown = what;
    draw();
  };
}
