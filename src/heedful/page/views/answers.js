// What a model answers, for every verb: a function that turns a result into elements.

import {labelOf, make, percent} from "../dom.js";
import {candidateRow, writtenPieces, writtenText} from "./written.js";

/** The classes as bars, the first one large. */
function classify({labels}) {
  return [
    make("p", {class: "big", dir: "auto"}, labels[0].label),
    make("div", {class: "candidates"}, labels.map(({label, probability}) => candidateRow({text: label, probability}, null))),
  ];
}

/** The words with their tags. A tag's colour is that of its kind: B-DAY and I-DAY have the same. */
function tag({words}) {
  const kinds = [...new Set(words.map(({tag: name}) => name.replace(/^[BIES]-/, "")).filter(name => name !== "O"))];
  return make("p", {class: "tags", dir: "auto"}, words.map(({word, tag: name, probability}) => {
    const kind = kinds.indexOf(name.replace(/^[BIES]-/, ""));
    const title = probability === undefined ? name : `${name} ${percent(probability)}`;
    if (kind < 0) return [make("span", {class: "plainword", title}, word), " "];
    return [make("span", {class: "tagged", title, style: {"--kind": `var(--head-${kind % 8 + 1})`}}, make("bdi", {}, word), make("small", {}, name)), " "];
  }));
}

/** The answer, and where it stands in the passage. */
function answer({answer: found, probability, alternatives = []}, {t, input}) {
  const {passage} = input;
  const best = alternatives[0];
  const start = best?.start ?? passage.indexOf(found), end = best?.end ?? start + found.length;
  const marked = found && start >= 0 ? [passage.slice(0, start), make("mark", {}, passage.slice(start, end)), passage.slice(end)] : [passage];
  return [
    make("p", {class: "big", dir: "auto"}, found || t("plain.noAnswer")),
    make("p", {class: "hint"}, t("plain.probability", {share: percent(probability)})),
    make("p", {class: "passage", dir: "auto"}, marked),
    alternatives.length > 1 ? make("div", {class: "candidates"}, alternatives.slice(1, 4).map(one => candidateRow(one, null))) : null,
  ];
}

/** The text with the best guesses in place of every [MASK]; others can be tried. */
function fill({text, masks}, {t}) {
  const chosen = masks.map(() => 0);
  const sentence = make("p", {class: "written", dir: "auto"});
  const draw = () => {
    const parts = text.split("[MASK]");
    sentence.replaceChildren(...parts.flatMap((piece, place) => place < masks.length && place < parts.length - 1
      ? [piece, make("mark", {}, labelOf(masks[place][chosen[place]].token))] : [piece]));
  };
  const lists = masks.map((guesses, place) => make("div", {class: "candidates"},
    masks.length > 1 ? make("h3", {}, t("plain.mask", {number: place + 1})) : null,
    guesses.map(({token, probability}, number) => candidateRow({text: token, probability}, () => {
      chosen[place] = number;
      draw();
      lists[place].querySelectorAll(".candidate").forEach((row, index) => row.classList.toggle("chosen", index === number));
    }, number === 0))));
  draw();
  return [sentence, lists];
}

/** Several texts as vectors: how similar each is to each. */
function embed(results, {t}) {
  const list = Array.isArray(results) ? results : [results];
  if (list.length < 2) {
    const {vector} = list[0];
    return [make("p", {class: "hint"}, t("plain.oneVector", {count: vector.length})), make("p", {class: "vector"}, vector.slice(0, 12).map(number => number.toFixed(3)).join("  "), " …")];
  }
  const unit = list.map(({vector}) => {
    const length = Math.hypot(...vector) || 1;
    return vector.map(number => number / length);
  });
  const similarity = unit.map(one => unit.map(other => one.reduce((sum, number, index) => sum + number * other[index], 0)));
  const others = similarity.flatMap((row, place) => row.filter((_, column) => column !== place));
  const least = Math.min(...others), most = Math.max(...others);
  const share = value => most > least ? Math.min(1, (value - least) / (most - least)) : 1; // colours tell the pairs apart, not how near 1 they are
  const name = index => make("th", {scope: "col"}, String(index + 1));
  return [
    make("p", {class: "hint"}, t("plain.similarity")),
    make("div", {class: "scroller", tabindex: "0", role: "group", "aria-label": t("plain.result.embed")}, make("table", {class: "similarity"},
      make("thead", {}, make("tr", {}, make("td", {}), list.map((_, index) => name(index)))),
      make("tbody", {}, similarity.map((row, place) => make("tr", {}, make("th", {scope: "row"}, `${place + 1} `, make("bdi", {}, list[place].text)),
        row.map((value, column) => make("td", column === place ? {class: "same"} : {style: {"--share": share(value).toFixed(3)}}, value.toFixed(2)))))))),
  ];
}

/**
 * A text sentence by sentence: those that are not translated yet are faint. `go` goes on with another token of a sentence.
 * Parts are {text, sentence, result}; without `sentence` they are what stands between.
 */
function translate({parts}, {t, go}) {
  const written = parts.map(({text, sentence, result}, number) => {
    if (!sentence) return text;
    if (!result) return make("span", {class: "pending"}, text);
    const [best] = result.translations;
    return best?.text ? writtenPieces(best.text, best.tokens, t, go && ((place, id) => go(place, id, number))) : make("span", {class: "hint"}, t("plain.empty"));
  });
  const others = Array.from({length: Math.max(0, ...parts.map(({result}) => result?.translations.length ?? 0)) - 1}, (_, rank) => translated(parts, rank + 1));
  const more = others.length ? [make("h3", {}, t("plain.alternatives")), make("ul", {class: "alternatives"},
    others.map(text => make("li", {dir: "auto"}, text)))] : null;
  return [make("p", {class: "written", dir: "auto"}, written), more];
}

/** The translation of every part, joined; `rank` 0 is the best one. */
function translated(parts, rank = 0) {
  return parts.map(({text, sentence, result}) => sentence ? (result?.translations[rank] ?? result?.translations.at(-1))?.text ?? "" : text).join("");
}

const VIEWS = {
  translate, classify, tag, answer, fill, embed,
  summarize: ({summary, tokens}, {t, go}) => writtenText(summary, tokens, t, go),
  generate: ({prompt, text, tokens}, {t, go}) => make("div", {}, make("span", {class: "prompt", dir: "auto"}, prompt), writtenText(text, tokens, t, go)),
};

/** The elements of a result. context: {t, input, go} */
export function answerView(verb, result, context) {
  return make("div", {class: `answer ${verb}`}, VIEWS[verb](result, context));
}

/** A result as text, for copying. */
export function answerText(verb, result) {
  const texts = {
    translate: () => translated(result.parts), summarize: () => result.summary, generate: () => result.prompt + result.text,
    classify: () => result.labels[0].label, tag: () => result.words.map(({word, tag: name}) => `${word}\t${name}`).join("\n"),
    answer: () => result.answer, embed: () => JSON.stringify((Array.isArray(result) ? result : [result]).map(({vector}) => vector)),
    fill: () => result.text.split("[MASK]").map((piece, place) => piece + (result.masks[place]?.[0]?.token.trim() ?? "")).join(""),
  };
  return texts[verb]();
}
