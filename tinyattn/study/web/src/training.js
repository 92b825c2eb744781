// Loss curve of the run, and gradient norms by layer.
import { axisBottom, axisLeft } from "d3-axis";
import { scaleLinear, scaleLog, scalePoint } from "d3-scale";
import { select } from "d3-selection";
import { line } from "d3-shape";
import { element, number } from "./show.js";

const MARGIN = { left: 58, right: 14, top: 12, bottom: 40 };

export function mountTraining({ page }) {
  const body = document.querySelector("#training .body");
  const figures = element("div", { class: "figures" });
  body.append(figures);
  const drawings = [];

  if (page.curve.length > 1) {
    const holder = element("div", { class: "chart" });
    const last = page.curve.findLast((one) => one.val_loss !== null);
    const caption = `Loss in nats per ${page.unit} over ${page.curve.at(-1).step} steps: training and validation` + (last ? ` (finally ${number(last.val_loss)}).` : ".");
    figures.append(element("figure", {}, holder, legendOf([["train", "training"], ["val", "validation"]]), element("figcaption", {}, caption)));
    drawings.push([holder, (state) => drawCurve(holder, page, state)]);
  } else {
    figures.append(element("p", { class: "note" }, "No loss curve: this model has no metrics file."));
  }

  const holder = element("div", { class: "chart" });
  const series = page.norms.series.map(({ name }, k) => ["s" + k, name]);
  figures.append(
    element(
      "figure",
      {},
      holder,
      legendOf(series),
      element("figcaption", {}, "Euclidean norm of the gradient of the mean loss by layer, on a logarithmic scale. Backpropagation runs from right to left, from the last layer to the input; a line that falls to the left is a vanishing gradient."),
      normsTable(page),
    ),
  );
  drawings.push([holder, () => drawNorms(holder, page)]);
  if (page.gradcheck) {
    const link = element("a", { href: page.gradcheck }, "report of tinyattn gradcheck");
    body.append(element("p", { id: "gradcheck" }, "Verification of the gradients: ", link, "."));
  }

  let latest = null;
  const redraw = () => latest && drawings.forEach(([, drawing]) => drawing(latest));
  new ResizeObserver(redraw).observe(figures);
  return (state) => {
    latest = state;
    redraw();
  };
}

function legendOf(entries) {
  return element("ul", { class: "key" }, ...entries.map(([name, text]) => element("li", { class: name }, text)));
}

function canvas(holder, height, label) {
  const width = Math.max(260, holder.clientWidth);
  const svg = select(holder).selectAll("svg").data([0]).join("svg").attr("width", width).attr("height", height).attr("role", "img").attr("aria-label", label);
  svg.selectAll("*").remove();
  return { svg, width, right: width - MARGIN.right, bottom: height - MARGIN.bottom };
}

function axes(svg, x, y, bottom, xName, yName) {
  svg.append("g").attr("class", "axis").attr("transform", `translate(0, ${bottom})`).call(x);
  svg.append("g").attr("class", "axis").attr("transform", `translate(${MARGIN.left}, 0)`).call(y);
  svg.append("text").attr("class", "name").attr("x", MARGIN.left).attr("y", bottom + 34).text(xName);
  svg.append("text").attr("class", "name").attr("x", MARGIN.left + 6).attr("y", MARGIN.top + 2).text(yName);
}

function drawCurve(holder, page, state) {
  const { svg, right, bottom } = canvas(holder, 260, "Loss curve");
  const values = page.curve.flatMap((one) => [one.loss, one.val_loss]).filter((value) => value !== null);
  const x = scaleLinear([0, page.curve.at(-1).step], [MARGIN.left, right]);
  const y = scaleLinear([Math.min(...values), Math.max(...values)], [bottom, MARGIN.top + 8]).nice();
  axes(svg, axisBottom(x).ticks(6), axisLeft(y).ticks(6), bottom, "step", `nats per ${page.unit}`);
  for (const [name, field] of [["train", "loss"], ["val", "val_loss"]]) {
    const points = page.curve.filter((one) => one[field] !== null);
    svg.append("path").attr("class", "line " + name).attr("d", line((one) => x(one.step), (one) => y(one[field]))(points));
    if (name === "val") svg.append("g").selectAll("circle").data(points).join("circle").attr("class", name).attr("r", 3).attr("cx", (one) => x(one.step)).attr("cy", (one) => y(one.val_loss));
  }
  const { step } = page.steps[state.step];
  if (Number.isFinite(step)) svg.append("line").attr("class", "cursor").attr("x1", x(step)).attr("x2", x(step)).attr("y1", MARGIN.top).attr("y2", bottom);
}

function drawNorms(holder, page) {
  const { svg, right, bottom } = canvas(holder, 260, "Gradient norms by layer");
  const { places, series } = page.norms;
  const values = series.flatMap((one) => one.values).filter((value) => value > 0);
  const x = scalePoint(places, [MARGIN.left, right]).padding(0.3);
  const y = scaleLog([Math.min(...values) / 1.5, Math.max(...values) * 1.5], [bottom, MARGIN.top + 8]);
  axes(svg, axisBottom(x), axisLeft(y).ticks(4, "~e"), bottom, "layer", "gradient norm");
  series.forEach((one, k) => {
    const points = one.values.map((value, at) => [places[at], value]).filter(([, value]) => value > 0);
    svg.append("path").attr("class", `line s${k}`).attr("d", line(([place]) => x(place), ([, value]) => y(value))(points));
    svg.append("g").selectAll("circle").data(points).join("circle").attr("class", `s${k}`).attr("r", 3.5).attr("cx", ([place]) => x(place)).attr("cy", ([, value]) => y(value));
  });
}

function normsTable({ norms: { places, series } }) {
  return element(
    "details",
    {},
    element("summary", {}, "Table of the norms"),
    element(
      "div",
      { class: "scroll", tabindex: 0, "data-scrolls": true, role: "region", "aria-label": "Gradient norms" },
      element(
        "table",
        { id: "norms-table" },
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "gradient of"), ...places.map((place) => element("th", { scope: "col" }, place)))),
        element("tbody", {}, ...series.map((one) => element("tr", {}, element("th", { scope: "row" }, one.name), ...one.values.map((value) => element("td", { "data-value": value }, number(value)))))),
      ),
    ),
  );
}
