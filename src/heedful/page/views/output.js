// What comes out: candidates of every position, what each layer would already say, and how long the vectors are.

import {make, percent, quoted, shortLabel} from "../dom.js";
import {tokensOf} from "../draw/attention.js";
import {normsChart} from "../draw/norms.js";
import {candidatesView} from "./flow_output.js";
import {layerName} from "./stages.js";
import {exportTools} from "./tools.js";

const BEST = 3; // candidates of each layer where a layer gives one answer to the whole input

/** The logit lens: one row per layer, the last on top; one column per position, or per rank where the whole input gets one answer. */
export function lensTable(t, {layers, sequence, stack, columns}, explanation) {
  const whole = columns?.length === 1;
  const table = whole ? layers.map(([top]) => top.slice(0, BEST).map(one => [one])) : layers;
  const names = whole ? table.at(-1).map((_, rank) => `${rank + 1}.`) : columns ?? tokensOf(explanation, sequence).map(({text}) => text);
  const said = make("output", {class: "read"}, t("lens.ask"));
  const say = (top, layer, position) => said.replaceChildren(layerName(t, explanation.kind, stack, layer), " · ", ...(whole ? [] : [quoted(names[position]), " → "]),
    ...top.slice(0, 3).flatMap((one, index) => [index ? ", " : "", quoted(one.text), ` ${percent(one.probability)}`]));
  const cell = (top, layer, position) => {
    const [{text, probability}] = top, tell = () => say(top, layer, position);
    return make("td", {}, make("button", {type: "button", class: "lens", style: {"--share": probability.toFixed(3)}, on: {pointerenter: tell, focus: tell}},
      make("bdi", {}, shortLabel(text, whole ? 24 : 9)), whole ? make("small", {}, ` ${percent(probability)}`) : null));
  };
  const rows = table.map((row, layer) => make("tr", {}, make("th", {scope: "row"}, layerName(t, explanation.kind, stack, layer)), row.map((top, position) => cell(top, layer, position)))).reverse();
  const head = make("tr", {}, make("th", {}), names.slice(0, table[0].length).map(name => make("th", {scope: "col"}, make("bdi", {}, shortLabel(name, 9)))));
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
    const {shape} = await app.model();
    const block = (id, variant, ...content) => {
      const drawing = make("div", {}, content);
      return make("section", {class: "card inner"}, make("div", {class: "head"}, make("h3", {}, t(`${id}.title`)), exportTools(t, () => drawing, `${app.card.name}-${id}`)), make("p", {class: "hint"}, t(`${id}.about${variant}`)), drawing);
    };
    this.view.replaceChildren(...[
      block("output", explanation.candidates?.length > 1 ? "" : ".one", candidatesView(t, explanation)),
      ...(explanation.lens ?? []).map(lens => block("lens", "", lensTable(t, lens, explanation))),
      explanation.norms?.length ? block("norms", shape?.norm === "pre" ? "" : shape?.norm ? ".post" : ".none", make("div", {class: "row"}, explanation.norms.map(one => normsChart(t, one)))) : null,
    ].filter(Boolean));
  }

  changed(names) {
    return names.has("target") ? this.refresh() : null;
  }
}
