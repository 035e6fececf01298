// Which part of a text each token wrote.

import {labelOf} from "./dom.js";

/**
 * A text cut into pieces, each with the tokens that wrote it: [{text, tokens: [number]}]. Tokens are looked for one after the other;
 * one that is not in the text as it stands (bytes of a character, the end) belongs to the piece before it.
 */
export function piecesOf(text, tokens) {
  const pieces = [];
  let at = 0;
  tokens.forEach((token, number) => {
    const name = token.text.replace(/^##/, "").trim();
    const found = name ? text.indexOf(name, at) : -1;
    const near = found >= 0 && !/\S/.test(text.slice(at, found));
    if (!near) {
      if (pieces.length) pieces.at(-1).tokens.push(number);
      else pieces.push({text: "", tokens: [number]});
      return;
    }
    if (found > at) pieces.push({text: text.slice(at, found), tokens: []});
    pieces.push({text: name, tokens: [number]});
    at = found + name.length;
  });
  if (at < text.length) {
    const last = pieces.findLast(piece => piece.tokens.length);
    if (last && /\S/.test(text.slice(at))) last.text += text.slice(at);
    else pieces.push({text: text.slice(at), tokens: []});
  }
  return pieces.filter(piece => piece.text);
}

/** Token names as one line, for messages. */
export function lineOf(tokens) {
  return tokens.map(({text}) => labelOf(text)).join(" ");
}
