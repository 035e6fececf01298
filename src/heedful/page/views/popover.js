// A small box beside a word, with things to choose from. One at a time; Escape, or a click elsewhere, closes it.

import {make} from "../dom.js";

let open = null;

/** Close the box that is open; the focus goes back to where it was opened from. */
export function closePopover(refocus = false) {
  if (!open) return;
  const {box, anchor} = open;
  open = null;
  box.remove();
  anchor.removeAttribute("aria-expanded");
  if (refocus) anchor.focus();
}

/** Show content below an element. */
export function showPopover(anchor, label, ...content) {
  closePopover();
  const box = make("div", {class: "popover", role: "dialog", "aria-label": label}, content);
  document.body.append(box);
  const place = anchor.getBoundingClientRect(), size = box.getBoundingClientRect();
  const left = Math.max(8, Math.min(innerWidth - size.width - 8, place.left + place.width / 2 - size.width / 2));
  const below = place.bottom + 8 + size.height < innerHeight || place.top < size.height + 16;
  box.style.left = `${left + scrollX}px`;
  box.style.top = `${(below ? place.bottom + 8 : place.top - size.height - 8) + scrollY}px`;
  anchor.setAttribute("aria-expanded", "true");
  open = {box, anchor};
  box.querySelector("button, input")?.focus({preventScroll: true});
  return box;
}

document.addEventListener("keydown", event => {
  if (event.key === "Escape") closePopover(true);
});
document.addEventListener("pointerdown", event => {
  if (open && !open.box.contains(event.target) && !open.anchor.contains(event.target)) closePopover();
});
