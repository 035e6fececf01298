// The attention of the present input: every part, layer and head.

import {make} from "../dom.js";
import {drawAttention} from "../draw/attention.js";
import {attentionAt, scoreDetail} from "./numbers.js";
import {exportTools} from "./tools.js";

export class AttentionView {
  constructor(app) {
    this.app = app;
    this.root = make("div", {class: "card inner"});
    this.detail = make("div", {class: "detail", "aria-live": "polite"});
    this.view = make("div", {}, this.root, this.detail);
  }

  async refresh() {
    const {app} = this, {t, state} = app;
    const explanation = await app.look({target: state.values.target || undefined});
    this.detail.replaceChildren();
    if (!explanation) return this.root.replaceChildren(make("p", {class: "hint"}, t("plain.nothing")));
    if (!explanation.attention.some(({layers}) => layers.length)) return this.root.replaceChildren(make("p", {}, t("attention.none")));
    const {part, layer, head, mode} = state.values;
    drawAttention(this.root, explanation, {
      t, chosen: {part: part ?? (explanation.attention.some(({name}) => name === "cross") ? "cross" : ""), layer, head, mode: mode ?? "lines"},
      changed: chosen => {
        this.own = true;
        state.set(chosen);
        this.own = false;
        this.detail.replaceChildren();
      },
      inspect: ({row, column, option}) => this.inspect(explanation, row, column, option),
      tools: drawing => exportTools(t, drawing, `${app.card.name}-attention`),
    });
  }

  /** Open a cell: which q·k it is. */
  inspect(explanation, row, column, option) {
    const found = attentionAt(explanation, this.app.state.values.part, option.layer);
    if (found) this.detail.replaceChildren(make("div", {class: "card inner"}, scoreDetail({...found, explanation, head: option.head, row, column, t: this.app.t})));
  }

  changed(names) {
    return !this.own && ["part", "layer", "head", "mode"].some(name => names.has(name)) ? this.refresh() : null;
  }
}
