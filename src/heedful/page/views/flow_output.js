// The last step of the flow: from the last vector to the candidates for the output.

import {button, make, quoted} from "../dom.js";
import {tokensOf} from "../draw/attention.js";
import {candidateRow} from "./written.js";
import {stage} from "./stages.js";

/** The tokens that candidates belong to: those a decoder has read, or those of the input. */
export function placesOf(explanation) {
  return tokensOf(explanation, explanation.sequences.target ? "target" : "input");
}

/** What candidates at a position belong to: a token, or the whole word where a word gets its tag at its first token. */
function placeName(explanation, tokens, position) {
  const first = tokens[position];
  if (explanation.verb !== "tag" || !first || first.word === null || first.word === undefined) return first?.text ?? "";
  return tokens.filter(({word}) => word === first.word).map(({text}) => text.replace(/^##/, "")).join("");
}

/** Candidates of an explanation as rows; `at` is the number of an entry. */
export function candidateRows({candidates}, at, press = null) {
  const {top, chosen} = candidates[at];
  return make("div", {class: "candidates"}, top.map(one => candidateRow(one, press && (() => press(one)), one.id !== null && one.id === chosen)));
}

/** Words to choose a position with, and the candidates of the chosen one. */
export function candidatesView(t, explanation, start = 0) {
  const {candidates} = explanation, tokens = placesOf(explanation);
  if (!candidates?.length) return make("p", {class: "hint"}, t("output.none"));
  const list = make("div", {class: "candidatelist"});
  const words = candidates.map(({position}, index) => button(position === null ? t("output.whole") : quoted(placeName(explanation, tokens, position)), () => show(index), {class: "chip"}));
  const show = index => {
    words.forEach((word, place) => word.setAttribute("aria-pressed", place === index));
    const {position} = candidates[index];
    list.replaceChildren(position === null ? "" : make("p", {class: "hint"}, t({fill: "output.fill", tag: "output.word", answer: "output.token"}[explanation.verb] ?? "output.after"), " ", quoted(placeName(explanation, tokens, position))), candidateRows(explanation, index));
  };
  show(Math.min(start, candidates.length - 1));
  return make("div", {}, candidates.length > 1 ? make("div", {class: "chips"}, words) : null, list);
}

/** The stages of the output. */
export function outputStage({t}, explanation) {
  const written = explanation.output ? make("p", {class: "written", dir: "auto"}, explanation.output) : null;
  const kind = explanation.candidates?.some(({position}) => position !== null) ? "words" : "classes";
  return [stage(t, `out.${kind}`, "p = softmax(x · W_vocab)".replace("vocab", kind === "words" ? "vocab" : "class"), candidatesView(t, explanation)),
    ...(written ? [stage(t, "result", "", written)] : [])];
}
