/** What a model did with an input: the Explanation, as `heedful explain` writes it, and every number on the way when asked for. */

import { BeamSearch } from "./beam.js";
import { sentenceOf, sourceIds } from "./decode_verbs.js";
import { explainImage, explainRow } from "./explain_encoder.js";
import { BEGIN, changedTokens, countedOn, encodedTokens, END, special, writtenTokens } from "./explain_tokens.js";
import { attentionOf, explanationOf, lensOf, normsOf, topOf, traceOf } from "./explanation.js";
import { normalise } from "./matrix.js";
import { nextLogProbabilities } from "./probabilities.js";
import { InputError } from "./turns.js";
import { strip } from "./words.js";
import { Writer } from "./writer.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./attention.js").Run} Run
 * @typedef {import("./explain_tokens.js").Token} Token
 */

const CONTINUATION = 20; // tokens that a language model writes

/**
 * @param {Model} model
 * @param {any} input
 * @param {any} options
 */
export async function explain(model, input, options) {
  const run = model.begin(options, options.trace ? "everything" : "weights");
  if (model.kind === "vit") return explainImage(model, run, input, options);
  if (model.kind === "gpt") return explainText(model, run, input, options);
  const text = typeof input === "string" ? input : input.question;
  if (!strip(text)) throw new InputError("there is nothing to look at: the text is empty");
  return model.kind === "bert" ? explainRow(model, run, input, options) : explainPair(model, run, input, options);
}

/**
 * The output of a search, and its tree if it was one with a beam.
 * @param {Model} model
 * @param {string} text
 * @param {any} options
 */
async function search(model, text, options) {
  const run = model.begin(options);
  const beam = options.beam === true ? Math.max(2, model.settings.beam ?? 4) : options.beam || undefined;
  const sentence = sentenceOf(model, run, text, { ...options, beam });
  if (!sentence.beam) {
    const writer = await (await new Writer(model.network, run, sentence).begin()).finish();
    return { ids: writer.tokens, beam: null, cutOff: writer.tokens.length >= sentence.longest };
  }
  const found = await (await new BeamSearch(model.network, run, sentence).begin()).finish();
  const [{ tokens }] = found.hypotheses;
  return { ids: tokens, beam: found.tree, cutOff: tokens.length >= sentence.longest };
}

/**
 * The tokens of a target that is given as text or as ids.
 * @param {Model} model
 * @param {string | number[]} target
 */
function targetTokens(model, target) {
  const tokenizer = model.tokenizer("target");
  return typeof target === "string" ? encodedTokens(tokenizer, target) : writtenTokens(tokenizer, target);
}

/**
 * How a text was translated, or how a given target would be written.
 * @param {Model} model
 * @param {Run} run
 * @param {string} text
 * @param {any} options
 */
async function explainPair(model, run, text, options) {
  const tokenizer = model.tokenizer("target");
  const reader = model.tokenizer("source");
  const { config, network } = model;
  const read = sourceIds(model, text);
  const found = options.target === undefined ? await search(model, text, options) : { ids: [], beam: null, cutOff: false };
  const written = options.target === undefined ? writtenTokens(tokenizer, found.ids) : targetTokens(model, options.target);
  const framed = [...encodedTokens(reader, text, read.length - 1), special(reader.eos, END)];
  const source = changedTokens(run.act, "source", framed, reader, config.source_vocab);
  const target = changedTokens(run.act, "target", [special(tokenizer.bos, BEGIN), ...written], tokenizer, config.target_vocab);
  const passed = await network.forward(run, { source: idsOf(source), target: idsOf(target) });
  const say = sayWords(model, run, options.candidates ?? 10);
  const following = [...idsOf(target).slice(1), found.cutOff ? null : tokenizer.eos];
  const labels = model.kind === "recurrent" ? ["embeddings", "cells", "cells and attention"] : undefined;
  const { encoder, decoder } = passed.stacks;
  const looksBack = "Rows and columns are the tokens the decoder reads; none attends to a later one.";
  const cross = "Rows are the tokens the decoder reads, columns those of the source.";
  return explanationOf(model, {
    input: text,
    output: tokenizer.decode(idsOf(written)),
    sequences: { source: sequenceOf(source), target: sequenceOf(target) },
    attention: [
      attentionOf("encoder", "Rows and columns are the tokens of the source.", "source", "source", selfOf(encoder)),
      attentionOf("decoder", looksBack, "target", "target", selfOf(decoder)),
      attentionOf("cross", cross, "target", "source", decoder.record ? [decoder.record] : crossOf(decoder)),
    ],
    norms: [
      normsOf("encoder", "source", encoder.hidden),
      normsOf("decoder", "target", decoder.hidden, labels?.slice(0, decoder.hidden.length)),
    ],
    lens: options.lens ? [await lensOf("decoder", "target", decoder.hidden, normThen(network, say), labels?.slice(0, decoder.hidden.length))] : [],
    candidates: (await say(passed.states)).map((top, position) => ({ position, chosen: following[position], top })),
    beam: found.beam,
    trace: options.trace ? await traceOf(passed, { encoder: "source", decoder: "target" }, await network.project(run, passed.states)) : undefined,
  });
}

/**
 * How a prompt was continued, or how a given continuation would be written.
 * @param {Model} model
 * @param {Run} run
 * @param {string} prompt
 * @param {any} options
 */
async function explainText(model, run, prompt, options) {
  const tokenizer = model.tokenizer("source");
  const { network } = model;
  const { context, vocab } = model.config;
  const given = changedTokens(run.act, "input", [special(tokenizer.eos, END), ...encodedTokens(tokenizer, prompt)], tokenizer, vocab);
  if (given.length > context) throw new InputError(`a prompt of ${given.length - 1} tokens does not fit into the model's context of ${context - 1}`);
  const length = Math.min(options.length ?? CONTINUATION, context - given.length);
  let found = /** @type {{ids: number[], beam: any}} */ ({ ids: [], beam: null });
  if (options.target === undefined && length > 0) found = await search(model, prompt, { ...options, length });
  const written = options.target === undefined ? writtenTokens(tokenizer, found.ids) : targetTokens(model, options.target);
  if (given.length + written.length > context) {
    throw new InputError(`prompt and target have ${given.length + written.length - 1} tokens, but the model's context is ${context - 1}`);
  }
  const output = options.target ?? tokenizer.decode(found.ids);
  const shared = typeof output === "string" && /[\p{L}\p{N}]$/u.test(prompt) && /^[\p{L}\p{N}]/u.test(output) ? 1 : 0;
  const tokens = [...given, ...countedOn(given, written, shared)];
  const passed = await network.forward(run, { input: idsOf(tokens) });
  const say = sayWords(model, run, options.candidates ?? 10);
  const { decoder } = passed.stacks;
  const looksBack = "Rows and columns are the tokens of the text; none attends to a later one.";
  return explanationOf(model, {
    input: prompt,
    output: tokenizer.decode(idsOf(written)),
    sequences: { input: sequenceOf(tokens) },
    attention: [attentionOf("decoder", looksBack, "input", "input", selfOf(decoder))],
    norms: [normsOf("decoder", "input", decoder.hidden)],
    lens: options.lens ? [await lensOf("decoder", "input", decoder.hidden, normThen(network, say))] : [],
    candidates: (await say(passed.states)).map((top, position) => ({ position, chosen: tokens[position + 1]?.id ?? null, top })),
    beam: found.beam,
    trace: options.trace ? await traceOf(passed, { decoder: "input" }, await network.project(run, passed.states)) : undefined,
  });
}

/** @param {Token[]} tokens */
function idsOf(tokens) {
  return tokens.map(({ id }) => /** @type {number} */ (id));
}

/** @param {Token[]} tokens */
function sequenceOf(tokens) {
  return { tokens, segments: null, image: null };
}

/** @param {{records: any[]}} stack */
function selfOf({ records }) {
  return records.map((record) => record.self);
}

/** @param {{records: any[]}} stack */
function crossOf({ records }) {
  return records.map((record) => record.cross);
}

/**
 * The candidates after each of some states.
 * @param {Model} model
 * @param {Run} run
 * @param {number} count
 */
function sayWords(model, run, count) {
  const tokenizer = model.tokenizer("target");
  return async (/** @type {Matrix} */ states) => {
    const logits = await model.network.project(run, states);
    const [rows, width] = logits.shape;
    return Array.from({ length: rows }, (_, row) => {
      const scores = nextLogProbabilities(logits.data.subarray(row * width, (row + 1) * width), tokenizer);
      return topOf(scores.map(Math.exp), count, (id) => (id === tokenizer.eos ? END : tokenizer.tokens([id])[0]));
    });
  };
}

/**
 * What the last LayerNorm and the output make of hidden states.
 * @param {any} network
 * @param {(states: Matrix) => Promise<any>} say
 */
function normThen(network, say) {
  const [{ norm }] = network.lens;
  return (/** @type {Matrix} */ states) => say(normalise(states, norm));
}
