/** Questions with their passages: windows that overlap, and the spans that may be answers. See `pipelines/answerer.py`. */

import { largest } from "./probabilities.js";
import { InputError } from "./turns.js";
import { strip, wordSpans } from "./words.js";
import { readRow } from "./encoder_verbs.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {{ids: number[], first: number, offsets: [number, number][]}} QuestionWindow  question, [SEP], part of the passage
 * @typedef {{text: string, probability: number, start: number, end: number}} Answer
 */

const LONGEST_QUESTION = 64; // tokens
const LONGEST_PASSAGE = 1_000_000; // characters

/**
 * @param {Model} model
 * @param {string} question
 * @param {string} passage
 * @returns {QuestionWindow[]}
 */
export function questionWindows(model, question, passage) {
  const { max_length, stride } = model.settings;
  const tokenizer = model.tokenizer("source");
  if (passage.length > LONGEST_PASSAGE) {
    throw new InputError(`a passage of ${passage.length} characters is too long; give at most ${LONGEST_PASSAGE}`);
  }
  const asked = tokenizer.encode(question).slice(0, Math.min(LONGEST_QUESTION, Math.floor(max_length / 2)));
  const { ids, offsets } = tokenizer.encodeWithOffsets(passage);
  const room = max_length - 3 - asked.length;
  const step = Math.max(1, room - stride);
  const windows = [];
  for (let start = 0; start < Math.max(1, ids.length - room + step); start += step) {
    windows.push({
      ids: [...asked, tokenizer.eos, ...ids.slice(start, start + room)],
      first: asked.length,
      offsets: offsets.slice(start, start + room),
    });
  }
  return windows;
}

/**
 * The scores of all spans of a window that may be answers: whole words, not too long.
 * @param {Model} model
 * @param {QuestionWindow} window
 * @param {import("./matrix.js").Matrix} logits (L, 2)
 * @param {[number, number][]} words
 */
export function spansOf(model, { first, offsets }, logits, words) {
  const begins = new Set(words.map(([start]) => start));
  const ends = new Set(words.map(([, end]) => end));
  const begin = first + 2;
  const opens = offsets.map(([left, right]) => {
    for (let at = left; at < right; at++) if (begins.has(at)) return true;
    return false;
  });
  const found = [];
  for (let start = 0; start < offsets.length; start++) {
    if (!opens[start]) continue;
    for (let end = start; end < Math.min(offsets.length, start + model.settings.max_answer); end++) {
      if (!ends.has(offsets[end][1])) continue;
      const score = logits.data[2 * (begin + start)] + logits.data[2 * (begin + end) + 1];
      found.push({ start: offsets[start][0], end: offsets[end][1], score: Math.fround(score) });
    }
  }
  return found;
}

/**
 * @param {number[]} values
 */
export function logSumExp(values) {
  const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
  return most === -Infinity ? most : most + Math.log(values.reduce((sum, value) => sum + Math.exp(value - most), 0));
}

/**
 * The best answers in all windows, and the window of the best.
 * @param {Model} model
 * @param {import("./attention.js").Run} run
 * @param {string} question
 * @param {string} passage
 * @param {number} top
 * @returns {Promise<{best: Answer[], window: QuestionWindow}>}
 */
export async function answerSpans(model, run, question, passage, top) {
  const windows = questionWindows(model, question, passage);
  const words = wordSpans(passage);
  const quiet = { ...run, record: /** @type {const} */ ("nothing") };
  /** @type {{start: number, end: number, score: number}[]} */
  let best = [];
  const totals = [];
  let [window] = windows;
  for (const one of windows) {
    const { logits } = await readRow(model, quiet, one.ids, one.first);
    const spans = spansOf(model, one, logits, words);
    totals.push(logSumExp(spans.map(({ score }) => score)));
    const leading = largest(spans.map(({ score }) => score), top).map(({ index }) => spans[index]);
    if (leading.length && (!best.length || leading[0].score > best[0].score)) window = one;
    best = [...best, ...leading].sort((a, b) => b.score - a.score).slice(0, top);
  }
  const total = logSumExp(totals);
  const found = best.map(({ start, end, score }) => ({
    text: strip(passage.slice(start, end)), probability: Math.exp(score - total), start, end,
  }));
  return { best: found, window };
}
