// Thumbnails of all heads, and the map of the selected head.
import { axisBottom } from "d3-axis";
import { scalePow } from "d3-scale";
import { select } from "d3-selection";
import { colorOf, largest, paint } from "./color.js";
import { OVERLAYS } from "./data.js";
import { element, glyph, label, number, spoken } from "./show.js";

export const overlayOf = (state) => OVERLAYS.find((one) => one.key === state.overlay);

// Limit of the color scale: the largest magnitude in this head, or in all heads.
export function limitOf(page, state, layer = state.layer, head = state.head) {
  if (state.color === "head") return largest(page.map({ ...state, layer, head }, state.overlay));
  let limit = 0;
  for (let l = 0; l < page.model.layers; l++) {
    for (let h = 0; h < page.model.heads; h++) {
      limit = Math.max(limit, largest(page.map({ ...state, layer: l, head: h }, state.overlay)));
    }
  }
  return limit;
}

export function mountGrid({ page, go, theme }) {
  const { layers, heads } = page.model;
  const grid = document.getElementById("grid");
  grid.style.setProperty("--heads", heads);
  const buttons = [];
  grid.append(element("span", {}), ...Array.from({ length: heads }, (_, h) => element("span", { class: "label" }, `h${h}`)));
  for (let layer = 0; layer < layers; layer++) {
    grid.append(element("span", { class: "label" }, `L${layer}`));
    for (let head = 0; head < heads; head++) {
      const kind = page.steps[page.own].heads[layer][head].kind;
      const button = element(
        "button",
        {
          type: "button",
          "aria-label": `layer ${layer}, head ${head}: ${kind}`,
          title: `layer ${layer}, head ${head}: ${kind}`,
          onclick: () => go({ layer, head }),
        },
        element("canvas", { "aria-hidden": "true" }),
      );
      buttons.push({ layer, head, button });
      grid.append(button);
    }
  }

  let painted = "";
  return (state) => {
    const what = [state.overlay, state.loss, state.step, state.color, theme()].join();
    const { signed } = overlayOf(state);
    const shared = state.color === "all" && what !== painted ? limitOf(page, state) : null;
    for (const { layer, head, button } of buttons) {
      const chosen = layer === state.layer && head === state.head;
      button.setAttribute("aria-pressed", chosen);
      button.tabIndex = chosen ? 0 : -1;
      if (chosen && grid.contains(document.activeElement)) button.focus();
      if (what === painted) continue;
      const values = page.map({ ...state, layer, head }, state.overlay);
      paint(button.firstChild, values, page.length, shared ?? largest(values), signed, theme());
    }
    painted = what;
  };
}

export function mountMap({ page, store, hover, go, theme, announce }) {
  const size = page.length;
  const title = element("h3", {});
  const canvas = element("canvas", {});
  const rowBand = element("div", { class: "band" });
  const columnBand = element("div", { class: "band column" });
  const lockBand = element("div", { class: "band locked" });
  const plane = element("div", { class: "plane" }, canvas, columnBand, rowBand, lockBand);
  const rowLabels = element("div", { class: "labels rows", "aria-hidden": "true" });
  const columnLabels = element("div", { class: "labels columns", "aria-hidden": "true" });
  const readout = element("p", { class: "readout" });
  const legend = element("div", { class: "legend" });
  const frame = element("div", { class: "frame", style: `--size: ${size}` }, columnLabels, rowLabels, plane);
  for (const character of page.characters) {
    rowLabels.append(element("span", {}, label(character)));
    columnLabels.append(element("span", {}, label(character)));
  }
  frame.classList.toggle("words", page.hasWords);
  document.getElementById("map").append(title, frame, legend, readout);

  new ResizeObserver(() => {
    const cell = plane.clientWidth / size;
    frame.classList.toggle("lettered", cell >= 8.5);
    frame.style.setProperty("--cell", cell + "px");
  }).observe(plane);

  const cellAt = (event) => {
    const box = plane.getBoundingClientRect();
    const at = (offset, extent) => Math.min(size - 1, Math.max(0, Math.floor((offset / extent) * size)));
    return { row: at(event.clientY - box.top, box.height), column: at(event.clientX - box.left, box.width) };
  };
  plane.addEventListener("pointermove", (event) => hover.set(cellAt(event)));
  plane.addEventListener("pointerleave", () => hover.set({ row: null, column: null }));
  plane.addEventListener("click", (event) => {
    const { row } = cellAt(event);
    go({ row: store.get().row === row ? null : row });
  });

  const place = (band, index) => {
    band.hidden = index === null;
    if (index !== null) band.style.setProperty("--at", index);
  };
  const look = () => {
    const state = store.get();
    const at = hover.get();
    place(rowBand, at.row);
    place(columnBand, at.column);
    place(lockBand, state.row);
    readout.textContent = describe(page, state, at);
    rowLabels.childNodes.forEach((node, i) => node.classList.toggle("on", i === (at.row ?? state.row)));
    columnLabels.childNodes.forEach((node, j) => node.classList.toggle("on", j === at.column));
  };
  hover.listen(look);

  return (state, previous) => {
    const overlay = overlayOf(state);
    const values = page.map(state, state.overlay);
    const limit = limitOf(page, state);
    paint(canvas, values, size, limit, overlay.signed, theme());
    canvas.classList.toggle("pixels", true);
    title.textContent = `Layer ${state.layer}, head ${state.head}: ${overlay.title}`;
    drawLegend(legend, limit, overlay.signed, theme());
    look();
    if (previous && (state.layer !== previous.layer || state.head !== previous.head || state.overlay !== previous.overlay)) {
      announce(title.textContent);
    } else if (previous && state.row !== previous.row) {
      announce(state.row === null ? "Row unlocked" : `Row ${state.row} locked: ${spoken(page.characters[state.row])}`);
    }
  };
}

function describe(page, state, { row, column }) {
  if (row === null || column === null) {
    return state.row === null
      ? "Rows are queries, columns are keys. Hover over a cell for its values; click to lock its row."
      : `Row ${state.row} (${spoken(page.characters[state.row])}) is locked: Esc unlocks it.`;
  }
  const values = page.row(state, row);
  const k = values.keys.indexOf(column);
  const where = `query ${row} (${spoken(page.characters[row])}), key ${column} (${spoken(page.characters[column])}): `;
  if (k < 0) return where + "masked, P = 0 and dL/dS = 0";
  return where + OVERLAYS.map(({ key, name }) => `${name} = ${number(values[key][k])}`).join("  ");
}

function drawLegend(node, limit, signed, theme) {
  const width = 300;
  const cells = 150;
  const low = signed ? -limit : 0;
  const scale = scalePow().exponent(0.5).domain([low, limit]).range([8, width - 8]);
  const canvas = element("canvas", { "aria-hidden": "true" });
  const values = Float64Array.from({ length: cells }, (_, k) => scale.invert(8 + (k / (cells - 1)) * (width - 16)));
  paint(canvas, values, cells, limit, signed, theme);
  node.replaceChildren(canvas);
  const picture = select(node).append("svg").attr("width", width).attr("height", 20).attr("aria-hidden", "true");
  const ticks = signed ? [-limit, -limit / 4, 0, limit / 4, limit] : [0, limit / 16, limit / 4, limit];
  picture.append("g").call(axisBottom(scale).tickValues(limit === 0 ? [0] : ticks).tickFormat((tick) => number(tick, 2)).tickSize(4));
}

// The text, with its tokens colored by the current row; arrow keys move the locked row.
export function mountText({ page, store, hover, go, theme }) {
  const list = element("div", {
    role: "listbox",
    tabindex: 0,
    id: "characters",
    "aria-label": "Text: select the query whose row is locked",
  });
  const options = page.characters.map((character, i) => {
    const option = element("span", { role: "option", id: "character-" + i, "aria-selected": "false" }, glyph(character));
    option.setAttribute("aria-label", `${i}: ${spoken(character)}`);
    option.addEventListener("pointerenter", () => hover.set({ row: i, column: null }));
    option.addEventListener("click", () => go({ row: store.get().row === i ? null : i }));
    return option;
  });
  page.characters.forEach((character, i) => {
    list.append(options[i]);
    if (character.includes("\n")) list.append(element("br"));
  });
  list.addEventListener("pointerleave", () => hover.set({ row: null, column: null }));
  list.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key !== "Home" && event.key !== "End" && !move) return;
    event.preventDefault();
    const from = store.get().row ?? (move > 0 ? -1 : page.length);
    const to = event.key === "Home" ? 0 : event.key === "End" ? page.length - 1 : from + move;
    go({ row: Math.min(page.length - 1, Math.max(0, to)) });
  });
  const caption = element("p", { class: "note" });
  document.getElementById("text").append(list, caption);

  const look = () => {
    const state = store.get();
    const row = hover.get().row ?? state.row;
    const { signed, name } = overlayOf(state);
    const values = row === null ? null : page.row(state, row);
    const limit = values && largest(values[state.overlay]);
    options.forEach((option, i) => {
      const k = values ? values.keys.indexOf(i) : -1;
      const shade = k < 0 ? null : colorOf(values[state.overlay][k], limit, signed, theme());
      option.style.background = shade ? shade.fill : "";
      option.style.color = shade ? shade.ink : "";
      option.classList.toggle("query", i === row);
      option.classList.toggle("locked", i === state.row);
      option.classList.toggle("key", i === hover.get().column);
      option.setAttribute("aria-selected", i === state.row);
    });
    if (state.row === null) list.removeAttribute("aria-activedescendant");
    else list.setAttribute("aria-activedescendant", "character-" + state.row);
    caption.textContent =
      row === null
        ? `Hover over a ${page.unit}, or move through the text with the arrow keys, to highlight the ${page.unit}s it attends to.`
        : `The ${page.unit}s are colored by ${name} in the row of query ${row}, shown in a box.`;
  };
  hover.listen(look);
  return look;
}
