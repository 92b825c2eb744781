// Softmax of one row and its vector-Jacobian product in float64, as in tinyattn/ops/softmax.py.

export function softmax(scores) {
  let maximum = -Infinity;
  for (const score of scores) if (score > maximum) maximum = score;
  const probability = new Float64Array(scores.length);
  // If every key is masked, the weights and gradients are 0.
  if (maximum === -Infinity) return probability;
  let total = 0;
  for (let j = 0; j < scores.length; j++) total += probability[j] = Math.exp(scores[j] - maximum);
  for (let j = 0; j < scores.length; j++) probability[j] /= total;
  return probability;
}

export function dot(a, b) {
  let total = 0;
  for (let j = 0; j < a.length; j++) total += a[j] * b[j];
  return total;
}

export const sum = (values) => values.reduce((total, value) => total + value, 0);

// ds_j = p_j (g_j - mean) with mean = sum_k p_k g_k; `centered` is the bracket.
export function softmaxBackward(probability, incoming) {
  const mean = dot(probability, incoming);
  const centered = Float64Array.from(incoming, (value) => value - mean);
  const outgoing = centered.map((value, j) => probability[j] * value);
  return { mean, centered, outgoing };
}

// J_jk = p_j (delta_jk - p_k), row by row.
export function jacobian(probability) {
  const size = probability.length;
  const values = new Float64Array(size * size);
  for (let j = 0; j < size; j++) {
    for (let k = 0; k < size; k++) {
      values[j * size + k] = probability[j] * ((j === k ? 1 : 0) - probability[k]);
    }
  }
  return values;
}

export function entropy(probability) {
  let total = 0;
  for (const p of probability) if (p > 0) total -= p * Math.log(p);
  return total;
}
