// The payload (described in tinyattn/study/page.py), and the maps computed from it.
// The payload has the scores S and the gradients dL/dP; the page computes P, dL/dS and P*dL/dP.
import { softmax, softmaxBackward } from "./softmax.js";

export const OVERLAYS = [
  { key: "P", name: "P", title: "weights P = softmax(S)", signed: false },
  { key: "S", name: "S", title: "scores S, scaled and masked", signed: true },
  { key: "dP", name: "dL/dP", title: "gradient of the loss with respect to the weights", signed: true },
  { key: "dS", name: "dL/dS", title: "gradient of the loss with respect to the scores", signed: true },
  { key: "PdP", name: "P·dL/dP", title: "weight times its gradient: the first-order contribution to the loss", signed: true },
];

// Arrays are stored as byte planes (which compress well, since neighbors have similar high bytes), deflated, in base64.
async function unpack({ dtype, data }) {
  const packed = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const ArrayType = { float32: Float32Array, uint16: Uint16Array, uint8: Uint8Array }[dtype];
  const width = ArrayType.BYTES_PER_ELEMENT;
  const count = planes.length / width;
  const bytes = new Uint8Array(planes.length);
  for (let b = 0; b < width; b++) {
    for (let k = 0; k < count; k++) bytes[k * width + b] = planes[b * count + k];
  }
  return new ArrayType(bytes.buffer);
}

// Snapshots are quantized to 16 bits: level 0 is -inf, levels 1..65535 are evenly spaced from a head's low to its high.
async function unpackMaps(blob) {
  const stored = await unpack(blob);
  if (blob.dtype !== "uint16") return stored;
  const perHead = stored.length / blob.low.length;
  return Float32Array.from(stored, (level, k) => {
    const head = Math.floor(k / perHead);
    if (level === 0) return -Infinity;
    return blob.low[head] + ((level - 1) / 65534) * (blob.high[head] - blob.low[head]);
  });
}

export class Page {
  static async open(payload) {
    const page = new Page();
    Object.assign(page, payload);
    page.length = payload.characters.length;
    page.hasWords = payload.characters.some((token) => [...token].length > 1);
    const allowed = await unpack(payload.allowed);
    page.keys = [];
    page.start = [];
    page.cells = 0;
    for (let i = 0; i < page.length; i++) {
      const keys = [];
      for (let j = 0; j < page.length; j++) {
        const bit = i * page.length + j;
        if ((allowed[bit >> 3] >> (7 - (bit & 7))) & 1) keys.push(j);
      }
      page.keys.push(keys);
      page.start.push(page.cells);
      page.cells += keys.length;
    }
    // The page opens with the run's own state; the maps of other steps are unpacked on demand.
    await page.load(page.own, "all");
    return page;
  }

  async load(step, loss) {
    const snapshot = this.steps[step];
    snapshot.S ??= await unpackMaps(snapshot.scores);
    snapshot.dP ??= await unpackMaps(snapshot.gradient);
    if (loss !== "all") {
      const target = this.targets.find((one) => one.position === loss);
      target.dP ??= await unpack(target.gradient);
    }
  }

  // One row of one head, in float64: arrays over the keys that the query sees.
  row({ layer, head, loss, step }, i) {
    const { S, dP } = this.steps[step];
    const keys = this.keys[i];
    const at = (layer * this.model.heads + head) * this.cells + this.start[i];
    const scores = Float64Array.from(S.subarray(at, at + keys.length));
    const incoming =
      loss === "all"
        ? Float64Array.from(dP.subarray(at, at + keys.length))
        : this.rowOfTarget(loss, layer, head, i);
    return { keys, ...completed(scores, incoming) };
  }

  // The gradient of one character's loss is stored for the rows first..last of each layer; it is 0 in the others.
  rowOfTarget(position, layer, head, i) {
    const target = this.targets.find((one) => one.position === position);
    let at = 0;
    for (let l = 0; l < layer; l++) at += this.model.heads * this.cellsOf(target.rows[l]);
    const [first, last] = target.rows[layer];
    if (i < first || i > last) return new Float64Array(this.keys[i].length);
    at += head * this.cellsOf(target.rows[layer]) + this.start[i] - this.start[first];
    return Float64Array.from(target.dP.subarray(at, at + this.keys[i].length));
  }

  cellsOf([first, last]) {
    return last < first ? 0 : this.start[last] + this.keys[last].length - this.start[first];
  }

  // The n*n map of one head; NaN for masked cells.
  map(view, overlay) {
    const values = new Float64Array(this.length * this.length).fill(NaN);
    for (let i = 0; i < this.length; i++) {
      const row = this.row(view, i);
      row.keys.forEach((j, k) => (values[i * this.length + j] = row[overlay][k]));
    }
    return values;
  }
}

export function completed(S, dP) {
  const P = softmax(S);
  const { mean, centered, outgoing: dS } = softmaxBackward(P, dP);
  const PdP = P.map((value, k) => value * dP[k]);
  return { S, P, dP, mean, centered, dS, PdP };
}
