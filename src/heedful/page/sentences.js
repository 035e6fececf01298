// A text cut into sentences, as `text/sentences.py` does it, because a translator has learned from single ones.

const LETTER = "[\\p{L}\\p{Nl}\\p{No}]";
const END = new RegExp(`[.!?…؟।]+["'”“’»)\\]]*(?=\\s+["'“‘«(\\[¿¡]*(?![a-zß-öø-ÿ])${LETTER})|[。！？]+[”’」』）]*`, "gu");
const SHORT = `${LETTER}|\\p{Nd}+|Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Hr|Fr|Inc|Ltd|No|Nr|vs|ca|etc|bzw|usw|vol|approx|z\\.\\s?B|d\\.\\s?h|e\\.g|i\\.e`;
const ABBREVIATION = new RegExp(`(?:^|[\\s(])(?:${SHORT})\\.$`, "u");

/** [{text, sentence}]: sentences (true) and what is between them (false); joined again, they are the text. */
export function splitText(text) {
  const parts = [];
  for (const line of text.split(/(\r\n|\n|\r|\u2028)/)) {
    let start = 0;
    for (const {index, 0: {length}} of line.matchAll(END)) {
      const piece = line.slice(start, index + length);
      if (ABBREVIATION.test(piece)) continue;
      parts.push(...trimmed(piece));
      start = index + length;
    }
    parts.push(...trimmed(line.slice(start)));
  }
  return parts;
}

/** A sentence without the white space around it, which is told apart. */
function trimmed(piece) {
  const inner = piece.trim();
  if (!inner) return piece ? [{text: piece, sentence: false}] : [];
  const at = piece.indexOf(inner);
  const parts = [{text: piece.slice(0, at), sentence: false}, {text: inner, sentence: true}, {text: piece.slice(at + inner.length), sentence: false}];
  return parts.filter(part => part.text);
}

/** The sentences of a text alone. */
export function sentencesOf(text) {
  return splitText(text).filter(({sentence}) => sentence).map(({text: sentence}) => sentence);
}
