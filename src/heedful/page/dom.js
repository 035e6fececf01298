// Makes elements of HTML and SVG without innerHTML, so that no text is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";
const SPACES = {" ": "␣", "\n": "↵", "\r": "↵", "\t": "⇥"};

/** Set attributes; `on` holds event listeners, `style` CSS properties. Null leaves an attribute out, and so does false, except in ARIA. */
function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "style") for (const [property, set] of Object.entries(value)) element.style.setProperty(property, set);
    else element.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element with attributes and children. */
export function make(tag, attributes = {}, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

/** An SVG element with attributes and children. */
export function makeSvg(tag, attributes = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), attributes, children);
}

/** A button that does something. */
export function button(content, press, attributes = {}) {
  return make("button", {type: "button", ...attributes, on: {click: press}}, content);
}

const SETTLING = 2000; // ms in which what is still being drawn may move an element away again

/** Bring an element to the top of the window, or to its middle. */
export function bring(element, block = "start") {
  if (!element) return;
  const move = () => element.scrollIntoView({block}); // not smoothly: a motion ends early when the page changes its height
  const watch = new ResizeObserver(move);
  const done = new AbortController(); // or when the reader scrolls
  done.signal.addEventListener("abort", () => watch.disconnect());
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(kind, () => done.abort(), {signal: done.signal, passive: true});
  setTimeout(() => done.abort(), SETTLING);
  watch.observe(document.body);
}

/** Draw the inside of an element anew; a control inside that has the focus keeps it. */
export function keepFocus(root, draw) {
  const controls = () => [...root.querySelectorAll("button, input, select")];
  const place = controls().indexOf(document.activeElement);
  draw();
  if (place >= 0) controls()[place]?.focus({preventScroll: true});
}

/** A row of buttons of which one is pressed. `press(index)` presses one and calls `choose`; `show(index)` only marks it. */
export function choices(contents, choose, attributes = {}) {
  const buttons = contents.map(([content, label], index) => button(content, () => press(index), {"aria-label": label}));
  const show = chosen => buttons.forEach((one, index) => one.setAttribute("aria-pressed", index === chosen));
  const press = chosen => {
    show(chosen);
    choose(chosen);
  };
  return {view: make("div", {class: "choices", role: "group", ...attributes}, buttons), buttons, press, show};
}

/** A labelled slider; `change` is called with its number while it moves. */
export function slider(label, {min, max, step, value}, change, shown = number => String(number)) {
  const said = make("output", {}, shown(value));
  const input = make("input", {type: "range", min, max, step, value, "aria-label": label, on: {input: () => {
    said.textContent = shown(Number(input.value));
    change(Number(input.value));
  }}});
  const set = number => {
    input.value = number;
    said.textContent = shown(number);
  };
  return {view: make("label", {class: "slider"}, make("span", {}, label), input, said), input, set};
}

/** A labelled switch. */
export function toggle(label, on, change, about = "") {
  const input = make("input", {type: "checkbox", role: "switch", checked: on, on: {change: () => change(input.checked)}});
  return {view: make("label", {class: "toggle", title: about || null}, input, make("span", {}, label)), input};
}

/** A token as a label: white space around it goes; white space alone and signs that are not seen become visible. */
export function labelOf(token) {
  const text = token.trim();
  if (!text) return [...token].map(character => SPACES[character] ?? "␣").join("") || "∅";
  return /^[\p{Cf}\p{Cc}]+$/u.test(text) ? `U+${text.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}` : text;
}

/** A label of at most `most` Latin characters' width; a character of Chinese, Japanese or Korean counts twice. */
export function shortLabel(token, most) {
  let width = 0, text = "";
  for (const character of labelOf(token)) {
    width += /[\u1100-\u115f\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60\u{1f300}-\u{1faff}]/u.test(character) ? 2 : 1;
    if (width > most) return `${text}…`;
    text += character;
  }
  return text;
}

/** A text inside SVG with a direction of its own, as <bdi> gives it in HTML. */
export function isolated(text) {
  return `\u2068${text}\u2069`;
}

/** A token inside a sentence, with a direction of its own. */
export function quoted(token) {
  return make("bdi", {class: "token"}, labelOf(token));
}

/** 0.253 → "25.3 %" */
export function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

/** A number with three significant digits at most. */
export function shortNumber(number) {
  if (!Number.isFinite(number)) return number < 0 ? "−∞" : number > 0 ? "∞" : "–";
  const size = Math.abs(number);
  if (size === 0) return "0";
  const text = size >= 1e5 || (size < 1e-3 && size > 0) ? number.toExponential(1)
    : size >= 100 ? number.toFixed(0) : size >= 10 ? number.toFixed(1) : number.toFixed(size >= 1 ? 2 : 3);
  return text.replace("-", "−");
}
