// A text that a model has written: how sure it was of each word on hover, and other words to go on with on click.

import {button, labelOf, make, percent} from "../dom.js";
import {piecesOf} from "../words.js";
import {closePopover, showPopover} from "./popover.js";

/** "sure", "unsure" or "guess" for a probability. */
function confidence(probability) {
  return probability >= 0.8 ? "sure" : probability >= 0.4 ? "unsure" : "guess";
}

/** A row of a list of candidates: a bar, its text, its probability. */
export function candidateRow({text, probability, kept = true}, press, chosen = false, extra = null) {
  const bar = make("i", {class: "fill", style: {"--share": probability.toFixed(4)}});
  const content = [bar, extra, make("bdi", {class: "name"}, labelOf(text)), make("span", {class: "number"}, percent(probability))];
  const names = `candidate${chosen ? " chosen" : ""}${kept ? "" : " out"}`;
  return press ? button(content, press, {class: names}) : make("div", {class: names}, content);
}

/**
 * The text as words. `go(position, id)` is called when another token is chosen for a position; without it, words only tell their
 * probability.
 */
export function writtenText(...written) {
  return make("p", {class: "written", dir: "auto"}, writtenPieces(...written));
}

/** The same without the paragraph around it. */
export function writtenPieces(text, tokens, t, go = null) {
  if (!tokens?.length) return [text];
  return piecesOf(text, tokens).map(piece => {
    const parts = piece.tokens.map(number => tokens[number]).filter(token => token.probability !== undefined);
    if (!parts.length) return piece.text;
    const probability = Math.min(...parts.map(token => token.probability));
    const number = piece.tokens[0], {alternatives = []} = tokens[number];
    const label = t("plain.confidence", {word: piece.text, share: percent(probability)});
    if (!go || !alternatives.length) return make("span", {class: `piece ${confidence(probability)}`, title: label}, piece.text);
    const word = button(piece.text, () => showPopover(word, t("plain.otherWords"),
      make("p", {class: "hint"}, t("plain.otherWords")),
      alternatives.map(one => candidateRow(one, () => {
        closePopover(true);
        go(number, one.id);
      }, one.id === tokens[number].id))), {class: `piece ${confidence(probability)}`, title: label, "aria-haspopup": "dialog"});
    return word;
  });
}
