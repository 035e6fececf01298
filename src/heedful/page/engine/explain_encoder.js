/** The explanation of models that read: a BERT that fills, classifies, tags, answers or embeds, and a ViT. */

import {
  cutIds, hasMask, maskedIds, piecesOf, probabilitiesOf, segmentsOf, wordsOf,
} from "./encoder_verbs.js";
import { changedTokens, encodedTokens, joined, named, special, writtenTokens } from "./explain_tokens.js";
import { attentionOf, explanationOf, lensOf, normsOf, topOf, traceOf } from "./explanation.js";
import { readImage } from "./image_input.js";
import { apply, matrix, normalise, rows } from "./matrix.js";
import { classScores, meanRow } from "./pooling.js";
import { largest } from "./probabilities.js";
import { answerSpans, logSumExp, spansOf } from "./question_windows.js";
import { strip, wordSpans } from "./words.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./attention.js").Run} Run
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./explanation.js").Candidate} Candidate
 * @typedef {import("./explain_tokens.js").Token} Token
 * @typedef {{tokens: Token[], first: number | null, given: string, words?: string[], starts?: (number | null)[], window?: any,
 *   best?: any[], passage?: string}} Row
 * @typedef {{output: string, candidates: any[], say: ((states: Matrix) => Promise<Candidate[][]>) | null, columns?: string[]}} Said
 */

const SUMMARIES = { cls: "[CLS]", mean: "mean", attention: "queries" }; // what the one answer for a sequence is read from

/** @param {Candidate} best */
const withPercent = (best) => `${best.text} ${(100 * best.probability).toFixed(1)}%`;

/**
 * What a BERT does with an input.
 * @param {Model} model
 * @param {Run} run
 * @param {any} input
 * @param {any} options
 */
export async function explainRow(model, run, input, options) {
  const tokenizer = model.tokenizer("source");
  const { network, config } = model;
  const row = await rowOf(model, run, input, options.candidates ?? 5);
  const framed = [special(tokenizer.bos, "[CLS]"), ...row.tokens, special(tokenizer.eos, "[SEP]")];
  const tokens = changedTokens(run.act, "input", framed, tokenizer, config.vocab);
  const segments = segmentsOf(tokens.length, row.first);
  const ids = tokens.map(({ id }) => /** @type {number} */ (id));
  const ordered = segments && run.act.order("input", segments);
  const passed = await network.forward(run, { input: ids, segments: ordered });
  const { encoder } = passed.stacks;
  const said = await whatItSays(model, run, row, ids, passed, options.candidates ?? 5);
  const queries = config.head === "sequence" ? model.labels : ["query"];
  const logits = config.head === "pretraining" && options.trace ? await network.project(run, passed.states) : passed.logits;
  return explanationOf(model, {
    input,
    output: said.output,
    sequences: {
      input: { tokens, segments: ordered, image: null },
      ...(network.pooling ? { queries: { tokens: labelTokens(queries), segments: null, image: null } } : {}),
    },
    attention: [
      attentionOf("encoder", "Rows and columns are the tokens of the text.", "input", "input", selfOf(encoder)),
      attentionOf("pooling", "Rows are the learned queries, columns the tokens of the text.", "queries", "input", [passed.pooling]),
    ],
    norms: [normsOf("encoder", "input", encoder.hidden)],
    lens: options.lens && said.say ? [await lensOf("encoder", "input", encoder.hidden, said.say, undefined, said.columns ?? null)] : [],
    candidates: said.candidates,
    beam: null,
    trace: options.trace ? traceOf(passed, { encoder: "input" }, logits) : undefined,
  });
}

/** @param {{records: any[]}} stack */
function selfOf({ records }) {
  return records.map((record) => record.self);
}

/** @param {string[]} labels @returns {Token[]} */
function labelTokens(labels) {
  return labels.map((text, id) => ({ id, text, special: false, word: null }));
}

/**
 * What a BERT reads of an input, between [CLS] and the last [SEP].
 * @param {Model} model
 * @param {Run} run
 * @param {any} input
 * @param {number} top
 * @returns {Promise<Row>}
 */
async function rowOf(model, run, input, top) {
  const tokenizer = model.tokenizer("source");
  if (model.job === "question-answering") {
    const { question, passage } = input;
    const { window, best } = await answerSpans(model, run, question, passage, top);
    const asked = encodedTokens(tokenizer, question, window.first);
    const { offsets } = window;
    const all = encodedTokens(tokenizer, passage);
    const start = tokenizer.encodeWithOffsets(passage).offsets.findIndex(([a, b]) => a === offsets[0]?.[0] && b === offsets[0]?.[1]);
    const read = all.slice(Math.max(0, start), Math.max(0, start) + offsets.length);
    return { tokens: joined(tokenizer, asked, read), first: window.first, given: question, window, best, passage };
  }
  if (model.job === "tagging") {
    const words = wordsOf(model, input);
    const [piece] = words.length ? piecesOf(model, words) : [{ ids: [], first: [] }];
    const starts = piece.first;
    /** @type {number[]} */
    const numbers = [];
    starts.forEach((start, number) => {
      if (start === null) return;
      const following = starts.slice(number + 1).find((later) => later !== null) ?? piece.ids.length;
      for (let place = start; place < following; place++) numbers.push(number);
    });
    const texts = tokenizer.tokens(piece.ids);
    const tokens = piece.ids.map((id, index) => ({ id, text: texts[index], special: false, word: numbers[index] }));
    return { tokens, first: null, given: input, words: words.slice(0, starts.length), starts };
  }
  if (model.job === "bert-pretraining" && hasMask(input)) {
    return { tokens: named(tokenizer, writtenTokens(tokenizer, maskedIds(model, input))), first: null, given: input };
  }
  return { tokens: encodedTokens(tokenizer, input, cutIds(model, input).length), first: null, given: input };
}

/**
 * @param {Model} model
 * @param {Run} run
 * @param {Row} row
 * @param {number[]} ids
 * @param {any} passed
 * @param {number} top
 * @returns {Promise<Said>}
 */
async function whatItSays(model, run, row, ids, passed, top) {
  if (model.job === "bert-pretraining") return filled(model, run, ids, passed, top);
  if (model.job === "classification") return classified(model, run, passed, top);
  if (model.job === "tagging") return tagged(model, run, row, passed, top);
  if (model.job === "question-answering") return answered(model, run, row, top);
  return { output: "", candidates: [], say: null };
}

/**
 * The guesses for every [MASK].
 * @param {Model} model
 * @param {Run} run
 * @param {number[]} ids
 * @param {any} passed
 * @param {number} top
 * @returns {Promise<Said>}
 */
async function filled(model, run, ids, passed, top) {
  const tokenizer = model.tokenizer("source");
  const say = async (/** @type {Matrix} */ states) => {
    const logits = await model.network.project(run, states);
    return Array.from({ length: states.shape[0] }, (_, row) => topOf(probabilitiesOf(logits, row), top, (id) => tokenizer.tokens([id])[0]));
  };
  const candidates = [];
  const lines = [];
  for (const [position, id] of ids.entries()) {
    if (id !== tokenizer.mask) continue;
    const [found] = await say(rows(passed.states, position, position + 1));
    candidates.push({ position, chosen: found[0].id, top: found });
    lines.push(found.map((one) => withPercent({ ...one, text: one.text.trim() })).join("  "));
  }
  return { output: lines.join("\n"), candidates, say };
}

/**
 * @param {Model} model
 * @param {Run} run
 * @param {any} passed
 * @param {number} top
 * @returns {Promise<Said>}
 */
async function classified(model, run, passed, top) {
  const { network, labels } = model;
  const quiet = { ...run, record: /** @type {const} */ ("nothing") };
  const say = async (/** @type {Matrix} */ states) => {
    const { vector } = await network.pooled(quiet, states);
    const logits = await classScores(quiet, vector, network.classifier, network.pooling !== null);
    return [topOf(probabilitiesOf(logits), top, (id) => labels[id])];
  };
  const found = topOf(probabilitiesOf(passed.logits), top, (id) => labels[id]);
  const columns = [SUMMARIES[/** @type {keyof typeof SUMMARIES} */ (model.config.pooling)]];
  return { output: withPercent(found[0]), candidates: [{ position: null, chosen: found[0].id, top: found }], say, columns };
}

/**
 * The tags of every word, read off its first token.
 * @param {Model} model
 * @param {Run} run
 * @param {Row} row
 * @param {any} passed
 * @param {number} top
 * @returns {Promise<Said>}
 */
async function tagged(model, run, row, passed, top) {
  const { labels, network } = model;
  const sayOf = (/** @type {Matrix} */ logits) =>
    Array.from({ length: logits.shape[0] }, (_, place) => topOf(probabilitiesOf(logits, place), top, (id) => labels[id]));
  const found = sayOf(passed.logits);
  const starts = row.starts ?? [];
  const candidates = starts.flatMap((start) =>
    start === null ? [] : [{ position: start + 1, chosen: found[start + 1][0].id, top: found[start + 1] }]);
  const output = (row.words ?? []).map((word, index) => {
    const start = starts[index];
    return `${word}\t${start === null ? labels[0] : found[start + 1][0].text}\n`;
  });
  return { output: output.join(""), candidates, say: async (states) => sayOf(await apply(run.turns, states, network.classifier)) };
}

/**
 * The best spans of the window with the best answer.
 * @param {Model} model
 * @param {Run} run
 * @param {Row} row
 * @param {number} top
 * @returns {Promise<Said>}
 */
async function answered(model, run, row, top) {
  const passage = row.passage ?? "";
  const words = wordSpans(passage);
  const say = async (/** @type {Matrix} */ states) => {
    const spans = spansOf(model, row.window, await apply(run.turns, states, model.network.classifier), words);
    const scores = spans.map(({ score }) => score);
    const total = logSumExp(scores);
    return [largest(scores, top).map(({ index, value }) => ({
      id: null, text: strip(passage.slice(spans[index].start, spans[index].end)), probability: Math.exp(value - total),
    }))];
  };
  const best = (row.best ?? []).map(({ text, probability }) => ({ id: null, text, probability }));
  const candidates = best.length ? [{ position: null, chosen: null, top: best }] : [];
  return { output: best[0]?.text ?? "", candidates, say, columns: ["answer"] };
}

/**
 * How an image was classified. Its sequence is [CLS], then the patches row by row.
 * @param {Model} model
 * @param {Run} run
 * @param {{width: number, height: number, data: ArrayLike<number>}} image
 * @param {any} options
 */
export async function explainImage(model, run, image, options) {
  const { network, config, labels } = model;
  const top = options.candidates ?? 5;
  const { grid } = network;
  const passed = await network.forward(run, { image: readImage(image, config.image_size, config.channels) });
  const picture = { source: options.source ?? null, rows: grid, columns: grid };
  const patches = Array.from({ length: grid * grid }, (_, place) => ({
    id: null, text: `${Math.floor(place / grid) + 1},${(place % grid) + 1}`, special: false, word: null,
  }));
  const tokens = run.act.order("input", [special(null, "[CLS]"), ...patches]);
  const { encoder } = passed.stacks;
  const say = async (/** @type {Matrix} */ states) => {
    const quiet = { ...run, record: /** @type {const} */ ("nothing") };
    const normed = normalise(states, network.stack.norm);
    const others = rows(normed, 1, normed.shape[0]);
    let pooled = rows(normed, 0, 1);
    if (config.pooling === "mean") pooled = meanRow(others);
    if (network.pooling) pooled = (await network.pooling.forward(quiet, others)).output;
    const logits = await classScores(quiet, pooled, network.classifier, network.pooling !== null);
    return [topOf(probabilitiesOf(logits), top, (id) => labels[id])];
  };
  const best = topOf(probabilitiesOf(passed.logits), top, (id) => labels[id]);
  const columns = [SUMMARIES[/** @type {keyof typeof SUMMARIES} */ (config.pooling)]];
  const about = "Rows and columns are the patches of the image, named by row and column, after [CLS].";
  const pooling = "Rows are the learned queries, one per class, columns the patches of the image.";
  return explanationOf(model, {
    input: "image",
    output: withPercent(best[0]),
    sequences: {
      input: { tokens, segments: null, image: picture },
      ...(network.pooling ? {
        queries: { tokens: labelTokens(labels), segments: null, image: null },
        patches: { tokens: tokens.slice(1), segments: null, image: picture },
      } : {}),
    },
    attention: [
      attentionOf("encoder", about, "input", "input", selfOf(encoder)),
      attentionOf("pooling", pooling, "queries", "patches", [passed.pooling]),
    ],
    norms: [normsOf("encoder", "input", encoder.hidden)],
    lens: options.lens ? [await lensOf("encoder", "input", encoder.hidden, say, undefined, columns)] : [],
    candidates: [{ position: null, chosen: best[0].id, top: best }],
    beam: null,
    trace: options.trace ? traceOf(passed, { encoder: "input" }, matrix(passed.logits.shape, passed.logits.data)) : undefined,
  });
}
