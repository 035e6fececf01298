// Any drawing of the page as an SVG or PNG file: texts stay texts, lines stay lines, canvases become images.

import {makeSvg} from "../dom.js";

const COPIED = ["fill", "stroke", "stroke-width", "stroke-opacity", "stroke-linecap", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family", "font-style", "text-anchor"];
const MARGIN = 12;

/** A clone of an SVG element with the style it has on the page. */
function cloned(element) {
  const copy = element.cloneNode(false);
  copy.removeAttribute("class");
  copy.removeAttribute("style");
  const style = getComputedStyle(element);
  for (const name of COPIED) if (style.getPropertyValue(name)) copy.setAttribute(name, style.getPropertyValue(name));
  if (style.vectorEffect === "non-scaling-stroke") copy.setAttribute("vector-effect", "non-scaling-stroke");
  for (const child of element.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) copy.append(child.data);
    else if (child.nodeType === Node.ELEMENT_NODE && child.localName !== "title" && getComputedStyle(child).display !== "none") copy.append(cloned(child));
  }
  return copy;
}

function seen(colour) {
  return colour && colour !== "transparent" && !/,\s*0\)$/.test(colour) && !/\/ 0\)$/.test(colour);
}

/** A canvas with one pixel per cell, enlarged so that every viewer shows its cells with sharp edges. */
function enlarged(canvas, box) {
  const scale = Math.max(1, Math.min(16, Math.round(2 * box.width / canvas.width)));
  const large = document.createElement("canvas");
  [large.width, large.height] = [canvas.width * scale, canvas.height * scale];
  const context = large.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, 0, 0, large.width, large.height);
  return large.toDataURL("image/png");
}

function pictureOf(image) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/png");
}

/** The lines of text of a text node: [{text, box}] */
function linesOf(node) {
  const range = document.createRange(), lines = [];
  for (const match of node.data.matchAll(/\S+\s*/g)) {
    range.setStart(node, match.index);
    range.setEnd(node, match.index + match[0].trimEnd().length);
    const box = range.getBoundingClientRect();
    if (!box.width) continue;
    const last = lines.at(-1);
    if (last && Math.abs(last.box.top - box.top) < 3) last.text += match[0];
    else lines.push({text: match[0], box});
  }
  return lines;
}

function add(parts, element, origin) {
  const style = getComputedStyle(element);
  if (style.display === "none" || style.visibility === "hidden" || element.classList.contains("visually-hidden")) return;
  const box = element.getBoundingClientRect();
  const place = {x: box.left - origin.left, y: box.top - origin.top, width: box.width, height: box.height};
  if (seen(style.backgroundColor) || (seen(style.outlineColor) && element.classList.contains("frame") && !element.hidden)) {
    const framed = element.classList.contains("frame");
    parts.push(makeSvg("rect", {...place, rx: parseFloat(style.borderRadius) || 0, fill: framed ? "none" : style.backgroundColor,
      stroke: framed ? style.outlineColor : seen(style.borderTopColor) && parseFloat(style.borderTopWidth) ? style.borderTopColor : "none", "stroke-width": framed ? 2 : 1}));
  }
  if (element instanceof SVGSVGElement) {
    const copy = cloned(element);
    for (const [name, value] of Object.entries(place)) copy.setAttribute(name, value);
    copy.setAttribute("overflow", "visible");
    parts.push(copy);
  } else if (element instanceof HTMLCanvasElement) {
    if (element.width && element.height) parts.push(makeSvg("image", {...place, href: enlarged(element, box), preserveAspectRatio: "none"}));
  } else if (element instanceof HTMLImageElement) {
    parts.push(makeSvg("image", {...place, href: pictureOf(element), preserveAspectRatio: "none"}));
  } else {
    for (const child of element.childNodes) {
      if (child.nodeType === Node.ELEMENT_NODE) add(parts, child, origin);
      else if (child.nodeType === Node.TEXT_NODE) {
        for (const {text, box: line} of linesOf(child)) {
          parts.push(makeSvg("text", {x: line.left - origin.left, y: line.bottom - origin.top - 0.24 * line.height, fill: style.color, "font-size": style.fontSize,
            "font-weight": style.fontWeight, "font-family": style.fontFamily, "font-style": style.fontStyle}, text.trimEnd()));
        }
      }
    }
  }
}

/** An element of the page as the text of an SVG file, and its size. */
export function asSvg(element) {
  const box = element.getBoundingClientRect();
  const [width, height] = [Math.ceil(Math.max(box.width, element.scrollWidth)) + 2 * MARGIN, Math.ceil(box.height) + 2 * MARGIN];
  const background = getComputedStyle(document.documentElement).getPropertyValue("--card").trim();
  const parts = [];
  add(parts, element, {left: box.left - MARGIN, top: box.top - MARGIN});
  const whole = makeSvg("svg", {width, height, viewBox: `0 0 ${width} ${height}`}, makeSvg("rect", {width, height, fill: background}), parts);
  return {text: new XMLSerializer().serializeToString(whole), width, height};
}

/** The same as a PNG file, twice as large as on the page. */
export async function asPng(element) {
  const {text, width, height} = asSvg(element);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise(resolve => { canvas.toBlob(resolve, "image/png"); });
}

/** Let the reader save a file. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
