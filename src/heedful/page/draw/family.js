// Who may attend to whom in each kind of model, as small squares side by side: rows attend, columns are attended to.

import {make, makeSvg} from "../dom.js";

const SIZE = 6, CELL = 9; // tokens of each square, pixels of a cell
const everyone = () => true, earlier = (row, column) => column <= row;
const KINDS = {
  seq2seq: [["encoder", everyone], ["decoder", earlier], ["cross", everyone]],
  bert: [["encoder", everyone]],
  gpt: [["decoder", earlier]],
  vit: [["patches", everyone]],
  recurrent: [["cross", everyone]],
};

function square(may, label) {
  const cells = Array.from({length: SIZE * SIZE}, (_, index) => [Math.floor(index / SIZE), index % SIZE]);
  return makeSvg("svg", {width: SIZE * CELL, height: SIZE * CELL, viewBox: `0 0 ${SIZE * CELL} ${SIZE * CELL}`, role: "img", "aria-label": label},
    cells.map(([row, column]) => makeSvg("rect", {x: column * CELL, y: row * CELL, width: CELL - 1, height: CELL - 1, class: may(row, column) ? "may" : "not"})));
}

/** A picture of every kind; `own` is the kind of the reader's model. */
export function familyPicture(t, own) {
  return make("div", {class: "family"}, Object.entries(KINDS).map(([kind, squares]) => make("figure", {class: kind === own ? "own" : null},
    make("figcaption", {}, t(`family.${kind}`)),
    make("div", {class: "squares"}, squares.map(([name, may]) => make("span", {}, square(may, `${t(`family.${name}`)}: ${t(may === earlier ? "family.earlier" : "family.everyone")}`), make("small", {}, t(`family.${name}`))))))));
}
