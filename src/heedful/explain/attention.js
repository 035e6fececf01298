// Draws attention maps on any page that inlines this file and attention.css: drawAttention(element, maps).
//
// maps: [{name, about, note, rows, columns, layers: [{number, heads: [weights]}], picture}]
//   rows, columns   names of the tokens or patches that attend, and of those they attend to
//   weights         a list of numbers for each row, in thousandths: 250 is a weight of 25 %
//   picture         null, or {source, rows, columns}: an image, and how many patches it has down and across

// Pure functions

const SPACES = {" ": "␣", "\n": "↵", "\r": "↵", "\t": "⇥"};

/** A token as a label: white space becomes visible. */
function labelOf(token) {
  return token.trim() ? token : [...token].map(character => SPACES[character] ?? "␣").join("") || "∅";
}

/** 253 → "25.3 %" */
function percent(thousandths) {
  return `${(thousandths / 10).toFixed(1)} %`;
}

/** How strongly a weight is coloured, from 0 to 1. The root makes small weights visible and keeps the order. */
function strength(thousandths) {
  return Math.sqrt(Math.min(1000, Math.max(0, thousandths)) / 1000);
}

/** The side of a cell in pixels: as large as the width allows, and never too small to point at. */
function cellSize(width, columns) {
  return columns > 64 ? 5 : Math.max(16, Math.min(28, Math.floor(width / columns)));
}

/** How high the slanting labels above the columns are, in pixels. */
function labelHeight(names) {
  return 16 + Math.min(80, 6 * Math.max(...names.map(name => labelOf(name).length)));
}

/** The cell {row, column} of a grid that a point of the window is in. */
function cellAt(box, rows, columns, x, y) {
  const inside = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
  return {row: inside((y - box.top) / box.height, rows), column: inside((x - box.left) / box.width, columns)};
}

/** The cell that a key leads to from another one, or null if the key moves nothing. */
function cellAfter(key, {row, column}, rows, columns) {
  const moves = {
    ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    Home: [row, 0], End: [row, columns - 1], PageUp: [0, column], PageDown: [rows - 1, column],
  };
  if (!(key in moves)) return null;
  const [down, across] = moves[key];
  return {row: Math.max(0, Math.min(rows - 1, down)), column: Math.max(0, Math.min(columns - 1, across))};
}

/** One row of weights over the patches of a picture, without the [CLS] in front of them: a list for each row of patches. */
function overPatches(weights, {rows, columns}) {
  const patches = weights.slice(weights.length - rows * columns);
  return Array.from({length: rows}, (_, row) => patches.slice(row * columns, (row + 1) * columns));
}

// Elements

/** An HTML element with attributes and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A token inside a sentence, with a direction of its own. */
function quoted(token) {
  return make("bdi", {class: "token"}, labelOf(token));
}

/** Fill a canvas with one pixel for each cell, in the CSS colour of the canvas; `opacity` turns a weight into 0 to 1. */
function paint(canvas, weights, opacity) {
  [canvas.width, canvas.height] = [weights[0].length, weights.length];
  const context = canvas.getContext("2d");
  const [red, green, blue] = getComputedStyle(canvas).color.match(/[\d.]+/g).map(Number);
  const pixels = context.createImageData(canvas.width, canvas.height);
  weights.flat().forEach((weight, cell) => pixels.data.set([red, green, blue, Math.round(255 * opacity(weight))], 4 * cell));
  context.putImageData(pixels, 0, 0);
}

/**
 * Make the cells of a grid selectable by pointer, touch and keyboard; `select` is called with the cell.
 * With `follow`, pointing at a cell or focusing the grid is enough. Returns a function that puts a frame around a cell, or hides it.
 */
function makeSelectable(element, rows, columns, select, follow) {
  let current = {row: 0, column: 0};
  const frame = make("span", {class: "frame"});
  const show = cell => {
    current = cell ?? {row: 0, column: 0};
    frame.hidden = !cell;
    const {row, column} = current;
    frame.style.inset = `${100 * row / rows}% auto auto ${100 * column / columns}%`;
    [frame.style.width, frame.style.height] = [`${100 / columns}%`, `${100 / rows}%`];
  };
  const under = event => cellAt(element.getBoundingClientRect(), rows, columns, event.clientX, event.clientY);
  element.append(frame);
  element.tabIndex = 0;
  element.addEventListener("pointerdown", event => select(under(event)));
  element.addEventListener("keydown", event => {
    const cell = event.ctrlKey || event.metaKey || event.altKey ? null : cellAfter(event.key, current, rows, columns);
    if (!cell) return;
    event.preventDefault();
    select(cell);
    frame.scrollIntoView({block: "nearest", inline: "nearest"});
  });
  if (follow) {
    element.addEventListener("pointermove", event => {
      const cell = under(event);
      if (cell.row !== current.row || cell.column !== current.column) select(cell);
    });
    element.addEventListener("pointerenter", event => select(under(event)));
    element.addEventListener("focus", () => select(current));
  }
  return show;
}

// Views

/** One head's weights as a large grid with labels. Returns its element, its canvas, and a function that marks a cell, or none. */
function matrixView(map, title, cell, select) {
  const labels = (names, side) => make("div", {class: side, "aria-hidden": "true"}, ...names.map(name => {
    return make("span", {}, make("bdi", {title: name}, labelOf(name)));
  }));
  const [left, top, canvas] = [labels(map.rows, "left"), labels(map.columns, "top"), make("canvas")];
  const keys = `${title}. ${map.about} The arrow keys move from cell to cell.`;
  const cells = make("div", {class: "cells", role: "application", "aria-label": keys}, canvas);
  const show = makeSelectable(cells, map.rows.length, map.columns.length, select, true);
  const mark = chosen => {
    show(chosen);
    for (const [side, index] of [[left, chosen?.row], [top, chosen?.column]]) {
      side.querySelector(".chosen")?.classList.remove("chosen");
      side.children[index]?.classList.add("chosen");
    }
  };
  const view = make("div", {class: map.columns.length > 64 ? "matrix bare" : "matrix"}, top, left, cells);
  view.style.setProperty("--cell", `${cell}px`);
  view.style.setProperty("--label", `${labelHeight(map.columns)}px`);
  view.style.setProperty("--rows", map.rows.length);
  view.style.setProperty("--columns", map.columns.length);
  return {view, canvas, mark};
}

/** A picture and its grid of patches, with a canvas over it. */
function pictureView(picture, label, caption, select, follow) {
  const canvas = make("canvas");
  const patches = make("div", {class: "patches", role: "application", "aria-label": label});
  patches.append(make("img", {src: picture.source, alt: "", draggable: "false"}), canvas, make("span", {class: "lines"}));
  patches.style.setProperty("--rows", picture.rows);
  patches.style.setProperty("--columns", picture.columns);
  const show = makeSelectable(patches, picture.rows, picture.columns, select, follow);
  return {view: make("figure", {}, patches, caption), canvas, show};
}

/** Two views of a picture: in the first a patch (or [CLS]) is chosen, the second shows what it attends to. */
function picturesView(map, selectRow, selectColumn) {
  const {picture} = map;
  const first = map.rows.length - picture.rows * picture.columns; // patches come after [CLS]
  const index = ({row, column}) => first + row * picture.columns + column;
  const cell = number => number < first ? null : {
    row: Math.floor((number - first) / picture.columns), column: (number - first) % picture.columns,
  };
  const summary = make("span");
  const cls = make("button", {type: "button"}, "[CLS]");
  cls.addEventListener("click", () => selectRow(0));
  const chooser = make("figcaption", {}, "Choose a patch to look from", ...(first ? [", or ", cls] : []));
  const from = pictureView(picture, "Choose the patch that attends. The arrow keys move from patch to patch.", chooser,
    patch => selectRow(index(patch)), false);
  const to = pictureView(picture, "What it attends to. The arrow keys move from patch to patch.", make("figcaption", {}, summary),
    patch => selectColumn(index(patch)), true);
  from.canvas.remove();
  to.view.classList.add("heat");
  const update = (weights, row, column) => {
    const patches = overPatches(weights[row], picture), most = Math.max(1, ...patches.flat());
    from.show(cell(row));
    to.show(column === null ? null : cell(column));
    cls.setAttribute("aria-pressed", row < first);
    summary.replaceChildren(
      `What ${row < first ? "" : "patch "}`, quoted(map.rows[row]), ` attends to: the strongest colour is ${percent(most)}`,
      first ? `; [CLS] gets ${percent(weights[row][0])}.` : ".",
    );
    paint(to.canvas, patches, weight => 0.8 * weight / most);
  };
  return {view: make("div", {class: "pictures"}, from.view, to.view), update};
}

/** A row of buttons of which one is pressed. */
function choices(contents, choose) {
  const buttons = contents.map(([content, label]) => make("button", {type: "button", "aria-label": label}, content));
  const press = chosen => {
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", index === chosen));
    choose(chosen);
  };
  buttons.forEach((button, index) => button.addEventListener("click", () => press(index)));
  return {buttons, press};
}

/** The whole view: a button for each map, one head enlarged, and small pictures of every head to choose from. */
function drawAttention(root, maps) {
  const [said, large, heads] = [make("output"), make("div", {class: "large"}), make("div", {class: "heads"})];
  const about = make("p");
  let repaint = () => {};

  const showMap = number => {
    const map = maps[number], chosen = {row: 0, column: 0};
    let asked = false; // whether the reader has selected a cell yet
    const each = map.layers.flatMap((layer, l) => layer.heads.map((weights, h) => {
      return {weights, layer: l, title: `${map.name}, layer ${layer.number}, head ${h + 1}`, head: h + 1, canvas: make("canvas")};
    }));

    const showHead = which => {
      const {weights, title} = each[which];
      const pictures = map.picture && picturesView(map, row => select({...chosen, row}), column => select({...chosen, column}));
      const width = Math.max(240, large.clientWidth - 130);
      const matrix = matrixView(map, title, cellSize(width, map.columns.length), cell => select(cell));
      const show = () => {
        const {row, column} = chosen;
        matrix.mark(asked ? chosen : null);
        pictures?.update(weights, row, asked ? column : null);
        if (asked) {
          said.replaceChildren(quoted(map.rows[row]), " attends to ", quoted(map.columns[column]), `: ${percent(weights[row][column])}`);
        } else {
          said.textContent = "Point at a cell, tap it, or use the arrow keys to read its weight.";
        }
      };
      const select = cell => {
        Object.assign(chosen, cell);
        asked = true;
        show();
      };
      const scroller = make("div", {class: "scroller"}, matrix.view);
      large.replaceChildren(make("h3", {}, title), ...(pictures ? [pictures.view] : []), scroller);
      repaint = () => {
        paint(matrix.canvas, weights, strength);
        for (const {canvas, weights} of each) paint(canvas, weights, strength);
        show();
      };
      repaint();
    };

    const {buttons, press} = choices(each.map(({canvas, title, head}) => {
      return [make("span", {}, canvas, make("span", {}, `head ${head}`)), title];
    }), showHead);
    heads.replaceChildren(...map.layers.map((layer, l) => make("div", {class: "layer"},
      make("h3", {}, `Layer ${layer.number}`), ...buttons.filter((_, index) => each[index].layer === l))));
    about.textContent = `${map.about} ${map.note}`;
    press(each.length - map.layers.at(-1).heads.length); // the first head of the last layer
  };

  const {buttons, press} = choices(maps.map(({name}) => [name, name]), showMap);
  root.classList.add("attention");
  const kinds = make("div", {class: "kinds"}, ...(maps.length > 1 ? buttons : []));
  root.replaceChildren(kinds, about, said, make("div", {class: "both"}, large, heads));
  press(0);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint());
}
