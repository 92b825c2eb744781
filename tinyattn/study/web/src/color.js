// Color maps: one hue for weights, blue to orange for signed values (safe for color-blind readers).
import { interpolateRgb, piecewise } from "d3-interpolate";

const STOPS = {
  light: {
    even: ["#ffffff", "#c3d9ee", "#5b9bd0", "#1b5e9e", "#062c54"],
    signed: ["#083b6f", "#2f7fc1", "#a9cdea", "#ffffff", "#f6c48b", "#d9781a", "#7d3800"],
    empty: "#eceef1",
  },
  dark: {
    even: ["#10151c", "#173a5e", "#2f78b7", "#8dc3ee", "#f2f9ff"],
    signed: ["#c8e4ff", "#5aa6e6", "#1d4f80", "#10151c", "#7a430c", "#e28a2b", "#ffe2bf"],
    empty: "#232a33",
  },
};
const LEVELS = 512;

function channels(color) {
  return color.match(/\d+/g).slice(0, 3).map(Number);
}

const tables = {};
export function palette(theme, signed) {
  const name = theme + signed;
  if (name in tables) return tables[name];
  const mix = piecewise(interpolateRgb, STOPS[theme][signed ? "signed" : "even"]);
  const empty = channels(interpolateRgb(STOPS[theme].empty, "#000")(0));
  const table = Array.from({ length: LEVELS }, (_, level) => channels(mix(level / (LEVELS - 1))));
  return (tables[name] = { table, empty });
}

// Position of a value on the palette. The square root makes small values visible.
export function level(value, limit, signed) {
  if (limit === 0) return signed ? 0.5 : 0;
  const size = Math.sqrt(Math.min(1, Math.abs(value) / limit));
  return signed ? 0.5 + (Math.sign(value) * size) / 2 : size;
}

export function colorOf(value, limit, signed, theme) {
  const { table, empty } = palette(theme, signed);
  const [r, g, b] = Number.isFinite(value) ? table[Math.round(level(value, limit, signed) * (LEVELS - 1))] : empty;
  return { fill: `rgb(${r},${g},${b})`, ink: 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#000" : "#fff" };
}

export function largest(values) {
  let limit = 0;
  for (const value of values) if (Number.isFinite(value) && Math.abs(value) > limit) limit = Math.abs(value);
  return limit;
}

// One canvas pixel per cell; the style sheet scales the canvas up.
export function paint(canvas, values, columns, limit, signed, theme) {
  const rows = values.length / columns;
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const { table, empty } = palette(theme, signed);
  for (let k = 0; k < values.length; k++) {
    const value = values[k];
    const color = Number.isFinite(value) ? table[Math.round(level(value, limit, signed) * (LEVELS - 1))] : empty;
    image.data.set(color, 4 * k);
    image.data[4 * k + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}
