// Numbers with a shape: one way to read them, whether the engine computed them or a file holds them.
//
// A matrix may be given as nested lists, as {data, shape}, or as {data, shape, scale} with data in units of 1 / scale.

/** Any form → {data: Float32Array, shape}. The result is kept with the given object. */
export function matrixOf(given) {
  if (!given) return null;
  if (given.data instanceof Float32Array) return given;
  if (!Array.isArray(given)) {
    const scale = given.scale ?? 1;
    given.data = Float32Array.from(given.data, number => number / scale);
    return given;
  }
  const shape = [];
  for (let part = given; Array.isArray(part) || ArrayBuffer.isView(part); part = part[0]) shape.push(part.length);
  const depth = shape.length;
  return {data: Float32Array.from(Array.isArray(given[0]) || ArrayBuffer.isView(given[0]) ? flatten(given, depth) : given), shape};
}

function flatten(nested, depth) {
  return depth === 1 ? Array.from(nested) : nested.flatMap(part => flatten(Array.from(part), depth - 1));
}

/** One number: at(weights, head, query, key). */
export function at({data, shape}, ...indices) {
  return data[indices.reduce((offset, index, axis) => offset * shape[axis] + index, 0)];
}

/** The part of a matrix that the first indices choose, without a copy: part(weights, head) is {data, shape} of queries × keys. */
export function part({data, shape}, ...indices) {
  const inner = shape.slice(indices.length), size = inner.reduce((product, length) => product * length, 1);
  const start = indices.reduce((offset, index, axis) => offset * shape[axis] + index, 0) * size;
  return {data: data.subarray(start, start + size), shape: inner};
}

/** Every head of a layer averaged: (H, Lq, Lk) → (Lq, Lk). */
export function meanOfHeads({data, shape: [heads, queries, keys]}) {
  const mean = new Float32Array(queries * keys);
  for (let index = 0; index < data.length; index++) mean[index % mean.length] += data[index] / heads;
  return {data: mean, shape: [queries, keys]};
}

/**
 * Attention rollout (Abnar & Zuidema 2020): the heads of each layer averaged, half of the residual path added, and the layers
 * multiplied, so that the rows tell how much of the input reaches each position. [(H, L, L)] → (L, L)
 */
export function rollout(layers) {
  let flow = null;
  for (const weights of layers) {
    const {data, shape: [length]} = meanOfHeads(weights);
    const step = data.map((weight, index) => 0.5 * weight + (index % (length + 1) === 0 ? 0.5 : 0));
    if (!flow) {
      flow = step;
      continue;
    }
    const next = new Float32Array(length * length);
    for (let row = 0; row < length; row++) {
      for (let inner = 0; inner < length; inner++) {
        const share = step[row * length + inner];
        for (let column = 0; column < length; column++) next[row * length + column] += share * flow[inner * length + column];
      }
    }
    flow = next;
  }
  return {data: flow, shape: matrixShape(layers)};
}

function matrixShape(layers) {
  return layers[0].shape.slice(1);
}

/** The largest absolute value that is finite. */
export function largest({data}) {
  let most = 0;
  for (const number of data) if (Number.isFinite(number) && Math.abs(number) > most) most = Math.abs(number);
  return most;
}

/** Probabilities of scores; those that are −∞ get none. */
export function softmax(scores) {
  const most = Math.max(...scores);
  const powers = Float32Array.from(scores, score => Math.exp(score - most));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map(power => power / total);
}
