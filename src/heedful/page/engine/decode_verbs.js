/** The verbs of models that write: translate, summarize, generate. Options and results are those of the command line. */

import { BeamSearch } from "./beam.js";
import { nextLogProbabilities, largest } from "./probabilities.js";
import { InputError } from "./turns.js";
import { strip } from "./words.js";
import { Writer } from "./writer.js";

/**
 * @typedef {import("./attention.js").Run} Run
 * @typedef {import("./writer.js").Sentence} Sentence
 */

/** @type {[string, number, number][]} options with the least and the most that they may be */
const LIMITS = [["beam", 0, 256], ["n_best", 1, 256], ["length", 0, 100_000], ["top_k", 0, 1e9]];
const LONGEST_SOURCE = 4096; // tokens of one text

/**
 * What is to be written for an input.
 * @param {import("./model.js").Model} model
 * @param {Run} run
 * @param {string} text
 * @param {any} options
 * @returns {Sentence}
 */
export function sentenceOf(model, run, text, options) {
  for (const [name, least, most] of LIMITS) {
    const value = options[name] ?? least;
    if (!(Number.isInteger(value) && value >= least && value <= most)) {
      throw new InputError(`${name} must be a whole number from ${least} to ${most}, not ${value}`);
    }
  }
  return model.kind === "gpt" ? continuation(model, run, text, options) : translation(model, run, text, options);
}

/**
 * The framed ids of a source, as the model reads them.
 * @param {import("./model.js").Model} model
 * @param {string} text
 */
export function sourceIds(model, text) {
  const reader = model.tokenizer("source");
  const ids = reader.encode(text);
  const { max_length } = model.settings;
  if (model.job === "summarization" && max_length) ids.length = Math.min(ids.length, max_length);
  else if (ids.length > LONGEST_SOURCE) {
    throw new InputError(`a text of ${ids.length} tokens is too long: at most ${LONGEST_SOURCE} at a time; split it into sentences`);
  }
  return [...ids, reader.eos];
}

/**
 * @param {import("./model.js").Model} model
 * @param {Run} run
 * @param {string} text
 * @param {any} options
 * @returns {Sentence}
 */
function translation(model, run, text, options) {
  const { settings } = model;
  const tokenizer = model.tokenizer("target");
  const ids = sourceIds(model, text);
  const nBest = options.sample ? 1 : options.n_best ?? 1;
  const beam = Math.max(options.beam ?? settings.beam ?? 1, nBest);
  return {
    source: run.act.sequence("source", ids, model.config.source_vocab),
    first: tokenizer.bos,
    longest: ids.length + (settings.max_extra ?? 50),
    beam: options.sample || beam === 1 ? 0 : beam,
    alpha: options.length_penalty ?? settings.length_penalty ?? 0.6,
    nBest,
    limits: tokenizer,
    tokenizer,
  };
}

/**
 * A document begins after the end token of the one before it.
 * @param {import("./model.js").Model} model
 * @param {Run} run
 * @param {string} prompt
 * @param {any} options
 * @returns {Sentence}
 */
function continuation(model, run, prompt, options) {
  const tokenizer = model.tokenizer("source");
  const ids = run.act.sequence("input", [tokenizer.eos, ...tokenizer.encode(prompt)], model.config.vocab);
  return {
    source: ids.slice(0, -1),
    first: ids[ids.length - 1],
    longest: options.length ?? 200,
    beam: (options.beam ?? 0) > 1 ? options.beam : 0,
    alpha: options.length_penalty ?? 0,
    nBest: options.n_best ?? 1,
    limits: tokenizer,
    tokenizer,
  };
}

/**
 * @param {import("./model.js").Model} model
 * @param {string} text
 * @param {any} options
 */
export async function translate(model, text, options) {
  const run = model.begin(options);
  if (!strip(text)) return { source: text, translations: [] };
  const sentence = sentenceOf(model, run, text, options);
  const draws = options.sample ? options.n_best ?? 1 : 1;
  const found = [];
  for (let number = 0; number < draws; number++) {
    const sampling = options.sample ? { ...options, seed: `${options.seed ?? 1}/${number}` } : null;
    found.push(...(await written(model, run, sentence, sampling, options)));
  }
  return { source: text, translations: found.sort((a, b) => b.score - a.score) };
}

/**
 * @param {import("./model.js").Model} model
 * @param {string} text
 * @param {any} options
 */
export async function summarize(model, text, options) {
  const { translations } = await translate(model, text, options);
  const [best] = translations;
  return { document: text, summary: (best?.text ?? "").replaceAll("\n", " "), tokens: best?.tokens ?? [] };
}

/**
 * @param {import("./model.js").Model} model
 * @param {string} prompt
 * @param {any} options
 */
export async function generate(model, prompt, options) {
  const run = model.begin(options);
  const sentence = sentenceOf(model, run, prompt, options);
  const sampling = options.beam ? null : { ...options, seed: `${options.seed ?? 1}/0` };
  const [best] = await written(model, run, sentence, sampling, options);
  return { prompt, text: best.text, tokens: best.tokens };
}

/**
 * The outputs of a sentence, best first, with the probability of every token.
 * @param {import("./model.js").Model} model
 * @param {Run} run
 * @param {Sentence} sentence
 * @param {any} sampling
 * @param {any} options
 */
async function written(model, run, sentence, sampling, { onToken, alternatives = 0 }) {
  if (!sentence.beam) {
    const writer = await new Writer(model.network, run, sentence).begin();
    await writer.finish({ sampling, onToken });
    return [{ text: writer.text, score: writer.total, log_probability: writer.total, tokens: writer.written(alternatives) }];
  }
  const search = await (await new BeamSearch(model.network, run, sentence).begin()).finish();
  const found = [];
  for (const { tokens, text, score, log_probability, probabilities } of search.best) {
    const named = alternatives ? await forced(model, run, sentence, tokens, alternatives) : tokens.map((id, place) => ({
      id, text: sentence.tokenizer.tokens([id])[0], probability: probabilities[place], alternatives: [],
    }));
    found.push({ text, score, log_probability, tokens: named });
  }
  return found;
}

/**
 * The probabilities of tokens that are given, and what else could have stood there.
 * @param {import("./model.js").Model} model
 * @param {Run} run
 * @param {Sentence} sentence
 * @param {number[]} tokens
 * @param {number} alternatives
 */
async function forced(model, run, sentence, tokens, alternatives) {
  const state = (await model.network.start(run, sentence.source)).copy();
  const read = [sentence.first, ...tokens.slice(0, -1)];
  const found = [];
  for (const [place, token] of read.entries()) {
    if (place >= tokens.length) break;
    const logits = await model.network.step(run, [token], [state]);
    const scores = nextLogProbabilities(logits.data, sentence.limits);
    const named = (/** @type {number} */ id) => ({ id, text: sentence.tokenizer.tokens([id])[0], probability: Math.exp(scores[id]) });
    found.push({ ...named(tokens[place]), alternatives: alternatives ? largest(scores, alternatives).map(({ index }) => named(index)) : [] });
  }
  return found;
}
