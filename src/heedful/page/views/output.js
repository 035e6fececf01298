// What comes out: candidates of every position, what each layer would already say, and how long the vectors are.

import {make, percent, quoted, shortLabel} from "../dom.js";
import {tokensOf} from "../draw/attention.js";
import {normsChart} from "../draw/norms.js";
import {candidatesView} from "./flow_output.js";
import {layerName} from "./stages.js";
import {exportTools} from "./tools.js";

/** The logit lens: one row per layer, the last on top; one column per position. */
export function lensTable(t, {layers, sequence, stack}, explanation) {
  const tokens = tokensOf(explanation, sequence);
  const said = make("output", {class: "read"}, t("lens.ask"));
  const cell = (top, layer, position) => make("td", {}, make("button", {type: "button", class: "lens", style: {"--share": top[0].probability.toFixed(3)}, on: Object.fromEntries(["pointerenter", "focus"].map(name => [name, () => {
    said.replaceChildren(layerName(t, explanation.kind, stack, layer), " · ", quoted(tokens[position].text), " → ", ...top.slice(0, 3).flatMap((one, index) => [index ? ", " : "", quoted(one.text), ` ${percent(one.probability)}`]));
  }]))}, make("bdi", {}, shortLabel(top[0].text, 9))));
  const rows = layers.map((positions, layer) => make("tr", {}, make("th", {scope: "row"}, layerName(t, explanation.kind, stack, layer)), positions.map((top, position) => cell(top, layer, position)))).reverse();
  const head = make("tr", {}, make("th", {}), tokens.slice(0, layers[0].length).map(({text}) => make("th", {scope: "col"}, make("bdi", {}, shortLabel(text, 9)))));
  return make("div", {}, said, make("div", {class: "scroller", tabindex: "0", role: "group", "aria-label": t("lens.title")}, make("table", {class: "lenstable"}, make("thead", {}, head), make("tbody", {}, rows))));
}

export class OutputView {
  constructor(app) {
    this.app = app;
    this.view = make("div", {class: "outputs"});
  }

  async refresh() {
    const {app} = this, {t, state} = app;
    const explanation = await app.look({target: state.values.target || undefined});
    if (!explanation) return this.view.replaceChildren(make("p", {class: "hint card inner"}, t("plain.nothing")));
    const block = (id, ...content) => {
      const drawing = make("div", {}, content);
      return make("section", {class: "card inner"}, make("div", {class: "head"}, make("h3", {}, t(`${id}.title`)), exportTools(t, () => drawing, `${app.card.name}-${id}`)), make("p", {class: "hint"}, t(`${id}.about`)), drawing);
    };
    this.view.replaceChildren(...[
      block("output", candidatesView(t, explanation)),
      ...(explanation.lens ?? []).map(lens => block("lens", lensTable(t, lens, explanation))),
      explanation.norms?.length ? block("norms", make("div", {class: "row"}, explanation.norms.map(one => normsChart(t, one)))) : null,
    ].filter(Boolean));
  }

  changed(names) {
    return names.has("target") ? this.refresh() : null;
  }
}
