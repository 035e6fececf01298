/** The verbs of models that read: fill, classify, tag, answer, embed. Options and results are those of the command line. */

import { readImage } from "./image_input.js";
import { matrix, rows } from "./matrix.js";
import { meanRow } from "./pooling.js";
import { largest, logSoftmax } from "./probabilities.js";
import { answerSpans } from "./question_windows.js";
import { InputError } from "./turns.js";
import { spaced, wordSpans } from "./words.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./attention.js").Run} Run
 * @typedef {import("./matrix.js").Matrix} Matrix
 */

const MASKS = ["[MASK]", "<mask>"];

/** Probabilities of a row of logits. @param {Matrix} logits @param {number} [row] */
export function probabilitiesOf(logits, row = 0) {
  const width = logits.shape[logits.shape.length - 1];
  return logSoftmax(logits.data.slice(row * width, (row + 1) * width)).map(Math.exp);
}

/**
 * A row of ids framed by [CLS] and [SEP], through the model; `first` is the length of the first of two parts.
 * @param {Model} model
 * @param {Run} run
 * @param {number[]} ids
 * @param {number | null} [first]
 */
export async function readRow(model, run, ids, first = null) {
  const tokenizer = model.tokenizer("source");
  const framed = [tokenizer.bos, ...ids, tokenizer.eos];
  const input = run.act.sequence("input", framed, model.config.vocab);
  const segments = segmentsOf(framed.length, first);
  return model.network.forward(run, { input, segments: segments && run.act.order("input", segments) });
}

/**
 * 0 for [CLS] A [SEP], 1 after it.
 * @param {number} length
 * @param {number | null} first tokens of A
 */
export function segmentsOf(length, first) {
  return first === null ? null : Array.from({ length }, (_, place) => (place >= first + 2 ? 1 : 0));
}

/** The ids of a text, cut to what fits between [CLS] and [SEP]. @param {Model} model @param {string} text */
export function cutIds(model, text) {
  return model.tokenizer("source").encode(text).slice(0, model.settings.max_length - 2);
}

/** Whether a text has something to fill in. @param {string} text */
export function hasMask(text) {
  return MASKS.some((name) => text.includes(name));
}

/**
 * The ids of a text in which [MASK] stands for the mask token, whatever its name in the vocabulary.
 * @param {Model} model
 * @param {string} text
 */
export function maskedIds(model, text) {
  const tokenizer = model.tokenizer("source");
  let parts = text.replaceAll(MASKS[1], MASKS[0]).split(MASKS[0]);
  if (parts.length === 1) throw new InputError(`there is no ${MASKS[0]} to fill in “${text.slice(0, 60)}”`);
  // In vocabularies whose tokens include the space before a word, the mask replaces the space, too.
  if (tokenizer.spaced) parts = parts.map((part, index) => (index < parts.length - 1 ? part.replace(/ +$/, "") : part));
  const ids = tokenizer.encode(parts[0]);
  for (const part of parts.slice(1)) ids.push(/** @type {number} */ (tokenizer.mask), ...tokenizer.encode(part));
  const room = model.settings.max_length - 2;
  if (ids.length > room) throw new InputError(`a text of ${ids.length} tokens is too long; the model takes at most ${room}`);
  return ids;
}

/**
 * @param {Model} model
 * @param {string} text
 * @param {any} options
 */
export async function fill(model, text, options) {
  const run = model.begin(options);
  const tokenizer = model.tokenizer("source");
  const ids = maskedIds(model, text);
  const { states } = await readRow(model, run, ids);
  const read = run.act.sequence("input", [tokenizer.bos, ...ids, tokenizer.eos], model.config.vocab);
  const masks = [];
  for (const [place, id] of read.entries()) {
    if (id !== tokenizer.mask) continue;
    const found = probabilitiesOf(await model.network.project(run, rows(states, place, place + 1)));
    masks.push(largest(found, Math.min(options.top ?? 5, tokenizer.size)).map(({ index, value }) => ({
      token: tokenizer.tokens([index])[0], probability: value,
    })));
  }
  return { text, masks };
}

/**
 * @param {Model} model
 * @param {any} input a text or an image
 * @param {any} options
 */
export async function classify(model, input, options) {
  const run = model.begin(options);
  const { image_size, channels } = model.config;
  const { logits } = model.kind === "vit"
    ? await model.network.forward(run, { image: readImage(input, image_size, channels) })
    : await readRow(model, run, cutIds(model, input));
  const best = largest(probabilitiesOf(logits), Math.min(options.top ?? 1, model.labels.length));
  const labels = best.map(({ index, value }) => ({ label: model.labels[index], probability: value }));
  return { input: model.kind === "vit" ? "image" : input, labels };
}

/** The words of a text, split as in the training data. @param {Model} model @param {string} text */
export function wordsOf(model, text) {
  if (model.settings.split !== "words") return spaced(text);
  return wordSpans(text).map(([start, end]) => text.slice(start, end));
}

/**
 * Words cut into pieces of at most `room` tokens: the first word, ids, and the place of each word's first token.
 * @param {Model} model
 * @param {string[]} words
 */
export function piecesOf(model, words) {
  const room = model.settings.max_length - 2;
  const { ids, wordOf } = model.tokenizer("source").encodeWords(words);
  /** @type {number[][]} */
  const tokens = words.map(() => []);
  ids.forEach((id, index) => tokens[wordOf[index]].push(id));
  /** @type {{start: number, ids: number[], first: (number | null)[]}[]} */
  const pieces = [];
  tokens.forEach((all, number) => {
    const own = all.slice(0, room);
    if (!pieces.length || pieces[pieces.length - 1].ids.length + own.length > room) pieces.push({ start: number, ids: [], first: [] });
    const piece = pieces[pieces.length - 1];
    piece.first.push(own.length ? piece.ids.length : null);
    piece.ids.push(...own);
  });
  return pieces;
}

/**
 * @param {Model} model
 * @param {string} text
 * @param {any} options
 */
export async function tag(model, text, options) {
  const run = model.begin(options);
  const words = wordsOf(model, text);
  const found = words.map((word) => ({ word, tag: model.labels[0], probability: 0 }));
  for (const { start, ids, first } of piecesOf(model, words)) {
    const { logits } = await readRow(model, run, ids);
    first.forEach((place, index) => {
      if (place === null) return;
      const [best] = largest(probabilitiesOf(logits, place + 1), 1); // [CLS] is before the words
      Object.assign(found[start + index], { tag: model.labels[best.index], probability: best.value });
    });
  }
  return { text, words: found };
}

/**
 * @param {Model} model
 * @param {{question: string, passage: string}} input
 * @param {any} options
 */
export async function answer(model, { question, passage }, options) {
  const run = model.begin(options);
  const { best } = await answerSpans(model, run, question, passage, options.top ?? 3);
  const [first] = best;
  return { question, answer: first?.text ?? "", probability: first?.probability ?? 0, alternatives: best };
}

/**
 * @param {Model} model
 * @param {string} text
 * @param {any} options
 */
export async function embed(model, text, options) {
  const run = model.begin(options);
  const { pooling = "mean", normalize = true } = model.job === "embedding" ? model.settings : {};
  const { states } = await readRow(model, run, cutIds(model, text));
  const pooled = pooling === "mean" ? meanRow(states) : rows(states, 0, 1);
  const length = normalize ? Math.max(1e-12, Math.hypot(...pooled.data)) : 1;
  const vector = matrix(pooled.shape, pooled.data.map((value) => value / length)).data;
  return { text, vector: Array.from(vector) };
}
