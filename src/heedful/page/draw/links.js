// Attention as lines: the words that attend on the left, those attended to on the right, thickness by weight.

import {labelOf, make, makeSvg} from "../dom.js";
import {at} from "../matrix.js";

const FAINTEST = 0.06; // weight from which on a line is drawn while no word is chosen
const MOST = 500; // such lines at most
const THINNEST = 0.01; // weight from which on a line of the chosen word is drawn
const THICKNESSES = 16; // of those lines: each is one path
const LEVELS = 5; // of their opacity: each is one path, so that long sentences stay smooth

/** A column of words that can be pointed at and reached by keys. */
function column(tokens, side) {
  return make("div", {class: `words ${side}`, role: "list"}, tokens.map((token, index) => {
    const special = token.special ? " special" : "";
    return make("div", {role: "listitem"}, make("button", {type: "button", class: `word${special}`, "data-index": index},
      make("bdi", {}, labelOf(token.text)), make("span", {class: "shares", "aria-hidden": "true"})));
  }));
}

/** The path between the middle of a row at the left and one at the right, in a space 100 wide. */
function curve(from, to) {
  return `M0 ${from}C45 ${from} 55 ${to} 100 ${to}`;
}

/**
 * Lines between two sequences of tokens.
 *
 * queries, keys   tokens {text, special}
 * heads           [{number, weights (Lq, Lk), colour}]: several are drawn over each other in their colours
 * select          called with {query} or {key}, the word that is pointed at, or null
 * press           called with {query} or {key} when a word is clicked
 */
export function links({queries, keys, heads, title, select = () => {}, press = null}) {
  const height = 26, rows = Math.max(queries.length, keys.length);
  const middle = index => height * (index + 0.5);
  // Two pictures, one over the other: the lines at rest are not painted again while the pointer moves.
  const [rest, active] = ["rest", "active"].map(name => makeSvg("svg", {class: name, viewBox: `0 0 100 ${rows * height}`, preserveAspectRatio: "none", "aria-hidden": "true"}));
  const lines = make("div", {class: "lines"}, rest, active);
  const left = column(queries, "queries"), right = column(keys, "keys");
  const view = make("div", {class: "links", role: "group", "aria-label": title}, left, lines, right);
  view.style.setProperty("--row", `${height}px`);
  lines.style.height = `${rows * height}px`;
  let shown = "";

  const drawRest = () => {
    const all = [];
    for (const {weights, colour} of heads) {
      for (let query = 0; query < queries.length; query++) {
        for (let key = 0; key < keys.length; key++) {
          const weight = at(weights, query, key) / Math.sqrt(heads.length);
          if (weight >= FAINTEST) all.push({query, key, weight, colour});
        }
      }
    }
    all.sort((one, other) => other.weight - one.weight);
    const groups = new Map();
    for (const {query, key, weight, colour} of all.slice(0, MOST)) {
      const level = Math.min(LEVELS, Math.ceil(weight * LEVELS));
      const name = `${level} ${colour}`;
      groups.set(name, (groups.get(name) ?? "") + curve(middle(query), middle(key)));
    }
    rest.replaceChildren(...[...groups].map(([name, d]) => {
      const [level, colour] = name.split(" ");
      return makeSvg("path", {d, style: {stroke: colour, "stroke-width": `${0.6 + 0.9 * level}`, "stroke-opacity": `${0.08 + 0.11 * level}`}});
    }));
  };

  /** Lines of one word; `from` tells which column it is in. */
  const show = chosen => {
    const name = chosen ? JSON.stringify(chosen) : "";
    if (name === shown) return;
    shown = name;
    view.classList.toggle("dimmed", Boolean(chosen));
    for (const side of [left, right]) for (const one of side.querySelectorAll(".on")) one.classList.remove("on");
    for (const one of view.querySelectorAll(".shares")) if (one.firstChild) one.replaceChildren();
    const paths = new Map(); // "level colour" → the curves of that thickness and colour
    if (chosen) {
      const outgoing = "query" in chosen;
      (outgoing ? left : right).children[outgoing ? chosen.query : chosen.key]?.firstChild.classList.add("on");
      const others = outgoing ? right : left;
      for (let other = 0; other < others.children.length; other++) {
        const [query, key] = outgoing ? [chosen.query, other] : [other, chosen.key];
        for (const {weights, colour} of heads) {
          const share = at(weights, query, key);
          if (!(share >= (heads.length > 1 ? 3 : 1) * THINNEST)) continue;
          const group = `${Math.ceil(share * THICKNESSES)} ${colour}`;
          paths.set(group, (paths.get(group) ?? "") + curve(middle(query), middle(key)));
          if (heads.length === 1) others.children[other].firstChild.lastChild.textContent = `${Math.round(100 * share)}`;
        }
      }
    }
    active.replaceChildren(...[...paths].map(([group, d]) => {
      const [level, colour] = group.split(" "), share = level / THICKNESSES;
      return makeSvg("path", {d, style: {stroke: colour, "stroke-width": (1 + 9 * share / Math.sqrt(heads.length)).toFixed(2), "stroke-opacity": (0.25 + 0.7 * share).toFixed(2)}});
    }));
  };

  for (const [side, kind] of [[left, "query"], [right, "key"]]) {
    const choose = event => {
      const word = event.target.closest(".word");
      if (!word) return;
      const chosen = {[kind]: Number(word.dataset.index)};
      show(chosen);
      select(chosen);
    };
    side.addEventListener("pointerover", choose);
    side.addEventListener("focusin", choose);
    side.addEventListener("click", event => {
      choose(event);
      const word = event.target.closest(".word");
      if (word && press) press({[kind]: Number(word.dataset.index)});
    });
    side.addEventListener("keydown", event => {
      const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
      const word = event.target.closest("[role=listitem]");
      if (!step || !word) return;
      event.preventDefault();
      (step > 0 ? word.nextElementSibling : word.previousElementSibling)?.firstChild.focus();
    });
  }
  view.addEventListener("pointerleave", () => {
    if (view.contains(document.activeElement)) return;
    show(null);
    select(null);
  });
  drawRest();
  return {view, show};
}
