// Saturation of softmax: scores of random queries and keys for a chosen head size and scale.
import { axisBottom, axisLeft } from "d3-axis";
import { randomLcg, randomNormal } from "d3-random";
import { scaleLinear, scaleLog } from "d3-scale";
import { select } from "d3-selection";
import { area, line } from "d3-shape";
import { element, number } from "./show.js";
import { dot, entropy, jacobian, softmax } from "./softmax.js";

const KEYS = 32; // keys per query
const ROWS = 48; // random queries
const SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const MARGIN = { left: 56, right: 12, top: 14, bottom: 38 };

// Independent components with mean 0 and variance 1, so that q.k has variance d. Seeded, so reproducible.
function products(size) {
  const draw = randomNormal.source(randomLcg(0.25))(0, 1);
  return Array.from({ length: ROWS }, () => {
    const query = Float64Array.from({ length: size }, draw);
    return Float64Array.from({ length: KEYS }, () => dot(query, Float64Array.from({ length: size }, draw)));
  });
}

function measure(rows, scale) {
  let bits = 0;
  let norm = 0;
  let top = 0;
  const scores = [];
  for (const row of rows) {
    const scaled = row.map((value) => value * scale);
    scores.push(...scaled);
    const p = softmax(scaled);
    const J = jacobian(p);
    bits += entropy(p) / ROWS;
    norm += Math.sqrt(dot(J, J)) / ROWS;
    top += Math.max(...p) / ROWS;
  }
  const mean = scores.reduce((a, b) => a + b, 0) / scores.length;
  const variance = scores.reduce((a, b) => a + (b - mean) ** 2, 0) / scores.length;
  return { scores, entropy: bits, norm, top, deviation: Math.sqrt(variance) };
}

export function mountLaboratory() {
  const body = document.querySelector("#laboratory .body");
  const drawn = new Map(SIZES.map((size) => [size, products(size)]));
  const size = element("input", { type: "range", id: "head-size", min: 0, max: SIZES.length - 1, step: 1, value: 6, oninput: () => draw() });
  const sizeValue = element("output", { for: "head-size" });
  const power = element("input", { type: "range", id: "power", min: 0, max: 1, step: 0.05, value: 0, oninput: () => draw() });
  const powerValue = element("output", { for: "power" });
  const half = element("button", { type: "button", onclick: () => ((power.value = 0.5), draw()) }, "Divide by √d");
  const results = element("dl", { class: "sums", id: "laboratory-results" });
  const histogram = element("div", { class: "chart" });
  const entropies = element("div", { class: "chart" });
  const norms = element("div", { class: "chart" });
  const figure = (chart, text) => element("figure", {}, chart, element("figcaption", {}, text));
  body.append(
    element(
      "p",
      {},
      `Queries and keys with components of mean 0 and variance 1: q·k has variance d. ${ROWS} random queries attend to ${KEYS} random keys each; `,
      "the scores are multiplied by d to the power −a. Without scaling (a = 0) softmax saturates in large heads: the entropy of the weights decreases, and the Jacobian, a factor of every gradient, approaches 0.",
    ),
    element(
      "div",
      { class: "sliders" },
      element("div", { class: "field" }, element("label", { for: "head-size" }, "Head size d ", sizeValue), size),
      element("div", { class: "field" }, element("label", { for: "power" }, "Scale ", powerValue), power),
      half,
    ),
    results,
    element(
      "div",
      { class: "figures three" },
      figure(histogram, "Distribution of the scores; the line is the normal density with the same variance."),
      figure(entropies, "Entropy of the weights by head size, with this scale (solid) and with 1/√d (dashed)."),
      figure(norms, "Frobenius norm of the softmax Jacobian by head size, with the same scales."),
    ),
  );

  const sweep = (a) => SIZES.map((d) => ({ d, ...measure(drawn.get(d), d ** -a) }));
  const reference = sweep(0.5);

  function draw() {
    const d = SIZES[size.value];
    const a = Number(power.value);
    const scale = d ** -a;
    const now = measure(drawn.get(d), scale);
    const curve = sweep(a);
    sizeValue.textContent = String(d);
    size.setAttribute("aria-valuetext", `d = ${d}`);
    powerValue.textContent = `d^−${a.toFixed(2)} = ${number(scale, 3)}` + (a === 0.5 ? " = 1/√d" : "");
    power.setAttribute("aria-valuetext", powerValue.textContent);
    const rows = [
      ["standard deviation of the scores", number(now.deviation, 3), `theory ${number(Math.sqrt(d) * scale, 3)}`],
      ["entropy of the weights", number(now.entropy, 3), `uniform weights: ln ${KEYS} = ${number(Math.log(KEYS), 3)}`],
      ["mean of the largest weight", number(now.top, 3), ""],
      ["norm of the Jacobian", number(now.norm, 3), ""],
    ];
    results.replaceChildren(
      ...rows.map(([name, value, note]) =>
        element("div", {}, element("dt", {}, name), element("dd", {}, element("output", {}, value), element("span", { class: "note" }, " " + note))),
      ),
    );
    drawHistogram(histogram, now);
    drawSweep(entropies, curve, reference, d, "entropy", "nats", [0, Math.log(KEYS)]);
    drawSweep(norms, curve, reference, d, "norm", "‖J‖", [0, Math.max(...curve.map((one) => one.norm), ...reference.map((one) => one.norm))]);
  }

  let width = 0;
  new ResizeObserver(() => {
    if (body.clientWidth === width) return;
    width = body.clientWidth;
    draw();
  }).observe(body);
  return () => {};
}

function frame(holder, label) {
  const width = Math.max(240, holder.clientWidth);
  const height = 210;
  const svg = select(holder).selectAll("svg").data([0]).join("svg").attr("width", width).attr("height", height).attr("role", "img").attr("aria-label", label);
  svg.selectAll("*").remove();
  return { svg, right: width - MARGIN.right, bottom: height - MARGIN.bottom };
}

function axes(svg, x, y, bottom, xName, yName) {
  svg.append("g").attr("class", "axis").attr("transform", `translate(0, ${bottom})`).call(x);
  svg.append("g").attr("class", "axis").attr("transform", `translate(${MARGIN.left}, 0)`).call(y);
  svg.append("text").attr("class", "name").attr("x", MARGIN.left).attr("y", bottom + 32).text(xName);
  svg.append("text").attr("class", "name").attr("x", MARGIN.left + 6).attr("y", MARGIN.top).text(yName);
}

function drawHistogram(holder, { scores, deviation }) {
  const { svg, right, bottom } = frame(holder, `Histogram of the scores, standard deviation ${number(deviation, 3)}`);
  const reach = 4 * Math.max(1, deviation);
  const bins = 41;
  const step = (2 * reach) / bins;
  const density = new Float64Array(bins);
  for (const score of scores) {
    const bin = Math.floor((score + reach) / step);
    if (bin >= 0 && bin < bins) density[bin] += 1 / (scores.length * step);
  }
  const normal = (s) => Math.exp(-0.5 * (s / deviation) ** 2) / (deviation * Math.sqrt(2 * Math.PI));
  const x = scaleLinear([-reach, reach], [MARGIN.left, right]);
  const y = scaleLinear([0, Math.max(...density, normal(0)) * 1.1], [bottom, MARGIN.top]);
  axes(svg, axisBottom(x).ticks(6), axisLeft(y).ticks(4), bottom, "score", "density");
  svg.append("g").selectAll("rect").data(Array.from(density)).join("rect").attr("class", "bar positive").attr("x", (_, k) => x(-reach + k * step) + 0.5).attr("width", x(step) - x(0) - 1).attr("y", y).attr("height", (value) => bottom - y(value));
  const points = Array.from({ length: 121 }, (_, k) => -reach + (2 * reach * k) / 120);
  svg.append("path").attr("class", "line s1").attr("d", line(x, (s) => y(normal(s)))(points));
}

function drawSweep(holder, curve, reference, chosen, field, unit, range) {
  const { svg, right, bottom } = frame(holder, `${field} by head size`);
  const x = scaleLog([1, 512], [MARGIN.left, right]).base(2);
  const y = scaleLinear(range, [bottom, MARGIN.top + 6]).nice();
  axes(svg, axisBottom(x).tickValues(SIZES.filter((_, k) => k % 2 === 0 || k === 9)).tickFormat(String), axisLeft(y).ticks(4), bottom, "head size d", unit);
  const path = line((one) => x(one.d), (one) => y(one[field]));
  svg.append("path").attr("class", "fill").attr("d", area((one) => x(one.d), bottom, (one) => y(one[field]))(curve));
  svg.append("path").attr("class", "line s1 dashed").attr("d", path(reference));
  svg.append("path").attr("class", "line s0").attr("d", path(curve));
  const at = curve.find((one) => one.d === chosen);
  svg.append("circle").attr("class", "s0").attr("r", 4.5).attr("cx", x(at.d)).attr("cy", y(at[field]));
}
