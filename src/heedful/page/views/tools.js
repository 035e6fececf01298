// Small tools that many views have: saving a drawing, copying the address.

import {button, make} from "../dom.js";
import {asPng, asSvg, save} from "../draw/export.js";

/** Buttons that save a drawing; `drawing()` gives its element. */
export function exportTools(t, drawing, name) {
  const svg = button("SVG", () => save(new Blob([asSvg(drawing()).text], {type: "image/svg+xml"}), `${name}.svg`), {class: "quiet", "aria-label": t("tools.svg")});
  const png = button("PNG", async () => save(await asPng(drawing()), `${name}.png`), {class: "quiet", "aria-label": t("tools.png")});
  return make("div", {class: "tools export"}, svg, png);
}

/** A button that copies the address of what is shown. */
export function shareTool(app) {
  const {t} = app;
  const press = async () => {
    const address = app.state.address();
    try {
      await navigator.clipboard.writeText(address);
      copy.textContent = t("tools.shared");
    } catch {
      prompt(t("tools.share"), address);
    }
    setTimeout(() => { copy.textContent = t("tools.share"); }, 1600);
  };
  const copy = button(t("tools.share"), press, {class: "quiet"});
  return copy;
}
