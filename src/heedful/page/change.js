// Interventions as the page keeps them in its address, and small steps from one to the next.

import {tokensOf} from "./draw/attention.js";

/** The tokens that a model was given: all of its input, and of what a GPT reads the prompt. */
export function givenTokens(model, explanation) {
  const tokens = tokensOf(explanation, explanation.sequences.source ? "source" : "input");
  return explanation.kind === "gpt" ? tokens.slice(0, 1 + model.tokenizers.source.encode(explanation.input).length) : tokens;
}

/** Whether anything is changed. */
export function isChanged(change) {
  return Object.keys(tidy(change)).length > 0;
}

/** Without the entries that change nothing. */
export function tidy(change) {
  return Object.fromEntries(Object.entries(change ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== true
    && !(Array.isArray(value) && !value.length) && !(typeof value === "object" && !Array.isArray(value) && !Object.keys(value).length)));
}

/** Switch a head off, or on again. */
export function toggleHead(change, attention, layer, head) {
  return toggleEntry(change, "heads", {attention, layer, head});
}

/** Switch a layer off, or on again. */
export function toggleLayer(change, stack, layer) {
  return toggleEntry(change, "layers", {stack, layer});
}

function toggleEntry(change, list, entry) {
  const key = JSON.stringify(entry), before = change[list] ?? [];
  const without = before.filter(one => JSON.stringify(one) !== key);
  return tidy({...change, [list]: without.length === before.length ? [...before, entry] : without});
}

/** Whether a list of a change has an entry. */
export function has(change, list, entry) {
  const key = JSON.stringify(entry);
  return (change[list] ?? []).some(one => JSON.stringify(one) === key);
}

/** An order of the tokens of a sequence in which those that are words have changed places, and special ones have not. */
export function shuffled(tokens, random = Math.random) {
  const places = tokens.flatMap(({special}, index) => special ? [] : [index]);
  const order = [...places];
  for (let last = order.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [order[last], order[other]] = [order[other], order[last]];
  }
  if (order.length > 1 && order.every((place, index) => place === places[index])) order.push(order.shift());
  const permutation = tokens.map((_, index) => index);
  places.forEach((place, index) => { permutation[place] = order[index]; });
  return permutation;
}

/** The entropy of a row of weights, in bits. */
export function entropy(row) {
  let total = 0;
  for (const weight of row) if (weight > 0) total -= weight * Math.log2(weight);
  return total;
}
