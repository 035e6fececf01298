// A beam search to step through: its tree, a slider for the steps, and what is known of the branch that is pointed at.

import {button, make, quoted, slider} from "../dom.js";
import {beamTree} from "./tree.js";

const STEP = 600; // milliseconds of each step while the tree grows

export class BeamView {
  /** t: texts in the language of the page; extra: other controls beside the slider. */
  constructor(t, ...extra) {
    this.t = t;
    this.tree = make("div", {class: "treebox"});
    this.steps = slider(t("writing.steps"), {min: 1, max: 1, step: 1, value: 1}, value => this.draw(value));
    this.node = make("output", {class: "read"});
    this.view = make("div", {}, make("div", {class: "tools"}, extra, this.steps.view, button(t("flow.play"), () => this.grow(), {class: "quiet"})), this.node, this.tree);
  }

  /** What an export saves. */
  get drawing() {
    return this.tree.querySelector("svg") ?? this.tree;
  }

  /** Show a beam, {width, steps}, whole. */
  show(beam) {
    this.beam = beam;
    const count = Math.max(1, beam.steps.length);
    this.steps.input.max = count;
    this.steps.set(count);
    this.node.textContent = this.t("writing.node");
    this.draw(count);
    if (this.tree.firstChild) this.tree.firstChild.scrollLeft = 0; // a whole tree is read from its beginning
  }

  draw(count) {
    const {t, beam} = this;
    if (!beam?.steps.length) return this.tree.replaceChildren();
    this.tree.replaceChildren(beamTree(beam, count, {label: t("writing.beam"), begin: "▸", room: this.tree.clientWidth || Infinity, select: node => {
      this.node.replaceChildren(quoted(node.text), ` · ${t("writing.logProbability")} ${node.log_probability.toFixed(2)} · ${t("writing.score")} ${node.score.toFixed(2)} · ${t(`beam.${node.state}`)}`);
    }}));
    const scroller = this.tree.firstChild;
    scroller.scrollLeft = scroller.scrollWidth;
  }

  /** Show the tree step by step. */
  grow() {
    this.stop();
    const next = step => {
      if (!this.beam || step > this.beam.steps.length || !this.tree.isConnected) return;
      this.steps.set(step);
      this.draw(step);
      this.growing = setTimeout(() => next(step + 1), STEP);
    };
    next(1);
  }

  stop() {
    clearTimeout(this.growing);
  }
}
