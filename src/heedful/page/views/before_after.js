// The output of a model before and after a change: what it writes, how sure it is, and one head's attention.

import {choices, make, percent, quoted, shortNumber} from "../dom.js";
import {partsOf, tokensOf} from "../draw/attention.js";
import {heatMap} from "../draw/heatmap.js";
import {patchesInOrder} from "../draw/picture.js";
import {at, meanOfHeads, part as partOf, softmax} from "../matrix.js";
import {entropy, givenTokens} from "../change.js";
import {candidateRows} from "./flow_output.js";
import {exportTools} from "./tools.js";

const WRITTEN = 24; // tokens of a continuation

/** What a model puts out, as text; a GPT writes on. */
async function outputOf(app, model, explanation, interventions) {
  if (explanation.kind !== "gpt") return explanation.output;
  const {text} = await model.generate(await app.inspected(), {beam: 1, length: WRITTEN, interventions});
  return text;
}

/** The words of a text that are not in the other one are marked. */
function marked(text, other) {
  const [mine, theirs] = [text, other].map(words => words.split(/(\s+)/));
  const long = Array.from({length: mine.length + 1}, () => new Uint16Array(theirs.length + 1));
  for (let a = mine.length - 1; a >= 0; a--) {
    for (let b = theirs.length - 1; b >= 0; b--) long[a][b] = mine[a] === theirs[b] ? long[a + 1][b + 1] + 1 : Math.max(long[a + 1][b], long[a][b + 1]);
  }
  const parts = [];
  for (let a = 0, b = 0; a < mine.length;) {
    if (b < theirs.length && mine[a] === theirs[b]) {
      parts.push(mine[a++]);
      b++;
    } else if (b < theirs.length && long[a][b + 1] >= long[a + 1][b]) b++;
    else parts.push(/\S/.test(mine[a]) ? make("mark", {}, mine[a++]) : mine[a++]);
  }
  return parts;
}

/** How probable each token of a given target is: [{text, probability}]. */
export function givenProbabilities(explanation) {
  const {logits} = explanation.trace ?? {}, tokens = tokensOf(explanation, explanation.sequences.target ? "target" : "input");
  if (!logits?.data) return [];
  const from = tokens.length - logits.shape[0];
  return Array.from({length: logits.shape[0] - 1}, (_, index) => {
    const next = tokens[from + index + 1];
    return {text: next.text, probability: softmax(partOf(logits, index).data)[next.id] ?? 0};
  });
}

function givenView(t, before, after) {
  const [first, second] = [before, after ?? before].map(givenProbabilities);
  if (!first.length) return null;
  const mean = list => Math.exp(list.reduce((sum, {probability}) => sum + Math.log(Math.max(probability, 1e-12)), 0) / list.length);
  const column = (list, id) => make("td", {}, make("span", {class: "bar"}, make("i", {class: "fill", style: {"--share": list[id].probability.toFixed(4)}})), make("small", {}, percent(list[id].probability)));
  return make("section", {class: "card inner"}, make("h3", {}, t("whatif.given")), make("p", {class: "hint"}, t("whatif.given.about", {before: percent(mean(first)), after: percent(mean(second))})),
    make("div", {class: "scroller", tabindex: "0"}, make("table", {class: "given"}, make("thead", {}, make("tr", {}, make("th", {}, t("whatif.token")), make("th", {}, t("whatif.before")), make("th", {}, t("whatif.after")))),
      make("tbody", {}, first.map(({text}, id) => make("tr", {}, make("th", {scope: "row"}, quoted(text)), column(first, id), column(second, id)))))));
}

/**
 * By how much a shuffle changes probabilities: of what is written first, of a class, or of what is said of each token, wherever
 * it stands now.
 */
function difference(model, before, after, order) {
  const one = before.trace?.logits, other = after.trace?.logits;
  if (!one?.data || !other?.data) return null;
  const width = one.shape.at(-1), count = one.data.length / width;
  const row = (data, place) => softmax(data.subarray(place * width, (place + 1) * width));
  const first = before.kind === "gpt" ? givenTokens(model, before).length - 1 : 0;
  const pairs = count === order.length && !before.sequences.source && before.kind !== "gpt" ? order.map((from, to) => [from, to]) : [[first, first]];
  return Math.max(...pairs.map(([from, to]) => {
    const shuffled = row(other.data, to);
    return Math.max(...row(one.data, from).map((probability, index) => Math.abs(probability - shuffled[index])));
  }));
}

/** One head before and after, with how spread its attention is. */
function headView(app, before, after, redraw) {
  const {t, state} = app, parts = partsOf(before);
  if (!parts.length) return null;
  const one = parts.find(({name}) => name === state.values.part) ?? parts.find(({name}) => name === "cross") ?? parts[0];
  const other = after && partsOf(after).find(({name}) => name === one.name);
  const layer = one.layers.find(({number}) => number === state.values.layer) ?? one.layers.at(-1);
  const head = state.values.head ? Math.min(state.values.head, layer.weights.shape[0]) - 1 : null;
  const pick = choices(parts.map(({name}) => [t(`part.${name}`), t(`part.${name}`)]), index => redraw({part: parts[index].name}));
  pick.show(parts.indexOf(one));
  const number = (label, values, chosen, choose) => make("select", {"aria-label": label, on: {change: event => choose(Number(event.target.value))}}, values.map(([value, name]) => make("option", {value, selected: value === chosen}, name)));
  const layers = number(t("map.layer"), one.layers.map(({number: value}) => [value, t("attention.layer", {layer: value})]), layer.number, value => redraw({layer: value}));
  const heads = number(t("map.head"), [[0, t("attention.all")], ...Array.from({length: layer.weights.shape[0]}, (_, index) => [index + 1, t("attention.head", {head: index + 1})])], head === null ? 0 : head + 1, value => redraw({head: value}));
  const draws = [];
  const figure = (explanation, found, name) => {
    const same = found.layers.find(({number: value}) => value === layer.number) ?? found.layers.at(-1);
    const weights = head === null ? meanOfHeads(same.weights) : partOf(same.weights, Math.min(head, same.weights.shape[0] - 1));
    const rows = tokensOf(explanation, found.queries).map(({text}) => text), columns = tokensOf(explanation, found.keys).map(({text}) => text);
    const said = make("output", {class: "read"});
    const map = heatMap({rows, columns, title: `${t(`whatif.${name}`)}: ${t(`part.${one.name}`)}`, width: 340, least: 7, bare: columns.length > 40, select: cell => {
      map.mark(cell);
      said.replaceChildren(quoted(rows[cell.row]), " → ", quoted(columns[cell.column]), `: ${percent(at(weights, cell.row, cell.column))}`);
    }});
    draws.push(() => map.draw(weights));
    const spread = Array.from({length: weights.shape[0]}, (_, row) => entropy(partOf(weights, row).data)).reduce((sum, bits) => sum + bits, 0) / weights.shape[0];
    return make("figure", {}, make("figcaption", {}, make("b", {}, t(`whatif.${name}`)), make("small", {}, ` · ${t("whatif.spread", {bits: shortNumber(spread)})}`)), map.view, said);
  };
  const drawing = make("div", {class: "two maps"}, figure(before, one, "before"), other ? figure(after, other, "after") : null);
  queueMicrotask(() => draws.forEach(draw => draw()));
  return make("section", {class: "card inner"}, make("div", {class: "head"}, make("h3", {}, t("whatif.attention")), exportTools(t, () => drawing, `${app.card.name}-before-after`)),
    make("div", {class: "tools"}, parts.length > 1 ? pick.view : null, layers, heads), drawing);
}

/** The image as the model reads it, patch by patch. */
function seen({sequences: {input}}) {
  return input?.image ? patchesInOrder(input.image, input.tokens) : null;
}

/** What a model answered: its candidates where it gives a class, an answer or the words of gaps, and otherwise its text, with what is not in the other one marked. */
function saidBy(t, explanation, text, other) {
  const {candidates = [], verb} = explanation;
  if (candidates.length && (candidates[0].position === null || verb === "fill")) {
    return candidates.map((_, number) => [candidates.length > 1 ? make("h4", {}, t("plain.mask", {number: number + 1})) : null, candidateRows(explanation, number)]);
  }
  if (verb === "generate") [text, other] = [text, other].map(one => one?.replaceAll("\n", "↵\n") ?? null); // a text of empty lines alone is seen, too
  return make("p", {class: "written", dir: "auto"}, other === null ? text : text ? marked(text, other) : make("span", {class: "hint"}, t("plain.empty")));
}

/** Everything on the right side of "what if". */
export async function beforeAfter(app, model, before, after, interventions, target) {
  const {t, state} = app;
  const [first, second] = [await outputOf(app, model, before, {}), after ? await outputOf(app, model, after, interventions) : null];
  const pane = (name, text, other, explanation) => make("section", {class: `card inner pane ${name}`}, make("h3", {}, t(`whatif.${name}`)), seen(explanation), saidBy(t, explanation, text, other));
  const content = make("div", {class: "beforeafter"});
  const notes = [];
  if (after) {
    if (!target) notes.push(t(first === second ? "whatif.same" : "whatif.other"));
    if (interventions.permute && interventions.positions === false) {
      const unshuffled = await app.look({interventions: {...interventions, permute: undefined}, target});
      const gap = difference(model, unshuffled, after, Object.values(interventions.permute)[0]);
      if (gap !== null) notes.push(t("whatif.orderless", {gap: gap < 1e-4 ? "< 0.01 %" : percent(gap)}));
    }
  } else notes.push(t("whatif.nothing"));
  content.append(make("div", {class: "two outputs"}, pane("before", first, second, before), after ? pane("after", second, first, after) : make("section", {class: "card inner pane after empty"}, make("h3", {}, t("whatif.after")), make("p", {class: "hint"}, t("whatif.waiting")))),
    make("p", {class: "verdict", role: "status"}, notes.join(" ")), ...[target ? givenView(t, before, after) : null, headView(app, before, after, changes => state.set(changes))].filter(Boolean));
  return content;
}
