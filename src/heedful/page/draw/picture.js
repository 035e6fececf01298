// Attention over the patches of an image: in the left picture a patch is chosen, the right one shows what it attends to.

import {button, make, percent, quoted} from "../dom.js";
import {part} from "../matrix.js";
import {makeSelectable} from "./grid.js";
import {keepPainted, paint} from "./paint.js";

/** One row of weights over the patches of a picture, without the [CLS] in front of them, as (rows, columns). */
export function overPatches(weights, {rows, columns}) {
  return {data: weights.slice(weights.length - rows * columns), shape: [rows, columns]};
}

/** A picture with its patches in the order of their tokens, which are named by row and column. */
export function patchesInOrder({source, rows, columns}, tokens) {
  const share = (place, count) => `${count > 1 ? 100 * place / (count - 1) : 0}%`;
  const patches = tokens.filter(({special}) => !special).map(({text}) => {
    const [row, column] = text.split(",").map(number => Number(number) - 1);
    return make("i", {style: {"background-image": `url("${source}")`, "background-size": `${100 * columns}% ${100 * rows}%`, "background-position": `${share(column, columns)} ${share(row, rows)}`}});
  });
  return make("div", {class: "torn", "aria-hidden": "true", style: {"--columns": columns}}, patches);
}

/** A picture and its grid of patches, with a canvas over it. */
function pictureView(picture, label, caption, select, follow) {
  const canvas = make("canvas");
  const patches = make("div", {class: "patches", role: "application", "aria-label": label});
  const pixels = picture.source.startsWith("data:image/png") ? "pixels" : "";
  patches.append(make("img", {src: picture.source, alt: "", draggable: "false", class: pixels}), canvas, make("span", {class: "raster"}));
  patches.style.setProperty("--rows", picture.rows);
  patches.style.setProperty("--columns", picture.columns);
  const show = makeSelectable(patches, picture.rows, picture.columns, select, {follow});
  return {view: make("figure", {}, patches, caption), canvas, show};
}

/**
 * Two views of a picture.
 *
 * picture                  {source, rows, columns}
 * names                    of the rows: [CLS], then the patches
 * selectRow, selectColumn  called with the number of a token
 *
 * Returns the element and `update(matrix (L, L), row, column or null)`.
 */
export function picturesView({picture, names, selectRow, selectColumn, t}) {
  const first = names.length - picture.rows * picture.columns; // patches come after [CLS]
  const index = ({row, column}) => first + row * picture.columns + column;
  const cell = number => number < first ? null : {
    row: Math.floor((number - first) / picture.columns), column: (number - first) % picture.columns,
  };
  const summary = make("span");
  const cls = button("[CLS]", () => selectRow(0));
  const chooser = make("figcaption", {}, t("picture.from"), first ? [" ", cls] : []);
  const from = pictureView(picture, t("picture.fromLabel"), chooser, patch => selectRow(index(patch)), false);
  const to = pictureView(picture, t("picture.toLabel"), make("figcaption", {}, summary), patch => selectColumn(index(patch)), true);
  from.canvas.remove();
  to.view.classList.add("heat");
  const update = (matrix, row, column) => {
    const weights = part(matrix, row).data, patches = overPatches(weights, picture);
    const most = Math.max(0.001, ...patches.data);
    from.show(cell(row));
    to.show(column === null ? null : cell(column));
    cls.setAttribute("aria-pressed", row < first);
    summary.replaceChildren(
      row < first ? t("picture.what") : t("picture.whatPatch"), " ", quoted(names[row]), " ",
      t("picture.attendsTo", {most: percent(most)}), first ? ` ${t("picture.cls", {share: percent(weights[0])})}` : "",
    );
    keepPainted(to.canvas, () => paint(to.canvas, patches, weight => 0.85 * weight / most));
  };
  return {view: make("div", {class: "pictures"}, from.view, to.view), update};
}
