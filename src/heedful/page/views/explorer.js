// Everything inside the model: tabs with the views, and the guided tour above them.

import {choices, make, shortLabel} from "../dom.js";
import {WRITERS} from "../app.js";
import {AttentionView} from "./attention_view.js";
import {CompareView} from "./compare.js";
import {FlowView} from "./flow.js";
import {OutputView} from "./output.js";
import {Tour} from "./tour.js";
import {shareTool} from "./tools.js";
import {WhatIfView} from "./what_if.js";
import {WritingView} from "./writing.js";

const PAUSE = 350; // milliseconds after the last key
const SENTENCES = 200; // to choose from

export class Explorer {
  constructor(app, model) {
    this.app = app;
    const {t} = app;
    const writes = WRITERS.has(app.verb);
    const several = app.host.models.filter(({job}) => job === app.card.job).length > 1 || model.checkpoints.length > 1;
    this.kinds = {flow: FlowView, attention: AttentionView, ...(writes ? {writing: WritingView} : {}), output: OutputView, whatif: WhatIfView,
      ...(several ? {compare: CompareView} : {})};
    this.names = Object.keys(this.kinds);
    this.views = new Map();
    this.tabs = choices(this.names.map(name => [t(`view.${name}`), t(`view.${name}`)]), index => app.state.set({view: this.names[index]}), {class: "choices tabs", "aria-label": t("view.choose")});
    this.stage = make("div", {class: "viewstage"});
    this.part = make("div", {class: "partof"});
    this.tour = new Tour(app);
    this.view = make("section", {class: "explorer", "aria-label": t("page.lookInside")},
      make("div", {class: "tabbar"}, this.tabs.view, make("div", {class: "tools"}, this.tour.starter, shareTool(app))), this.tour.view, this.part, this.stage, this.tour.bar);
  }

  get current() {
    const name = this.names.includes(this.app.state.values.view) ? this.app.state.values.view : "flow";
    if (!this.views.has(name)) this.views.set(name, new this.kinds[name](this.app));
    return {name, view: this.views.get(name)};
  }

  show() {
    const {name, view} = this.current;
    const place = this.names.indexOf(name), tab = this.tabs.buttons[place];
    this.tabs.show(place);
    this.tabs.view.scrollLeft = tab.offsetLeft - (this.tabs.view.clientWidth - tab.offsetWidth) / 2; // on a phone not all tabs are in sight
    if (this.stage.firstChild !== view.view) this.stage.replaceChildren(view.view);
    this.tour.show();
    this.refresh();
  }

  /** Compute and draw the present view; problems are told in words. */
  async refresh() {
    clearTimeout(this.waiting);
    const {view} = this.current;
    this.view.classList.toggle("touring", this.tour.number > 0);
    this.stage.classList.add("busy");
    const turn = this.turn = (this.turn ?? 0) + 1;
    try {
      await view.refresh();
      this.problem?.remove();
    } catch (error) {
      this.tell(error);
    } finally {
      if (turn === this.turn) {
        this.stage.classList.remove("busy");
        this.drawPart();
      }
    }
  }

  tell(error) {
    if (error.name === "AbortError") return; // another input came
    this.problem?.remove();
    this.problem = make("p", {class: "problem card note", role: "alert"}, error.message);
    this.stage.before(this.problem);
    if (error.name !== "InputError") console.warn(error);
  }

  /** Which part of the input is looked into, where it is not the whole. */
  drawPart() {
    const {app} = this, {t, state, cut} = app, sentences = app.sentences();
    const chosen = Math.min(state.values.sentence ?? 0, sentences.length - 1);
    const select = make("select", {"aria-label": t("part.sentence"), on: {change: () => state.set({sentence: Number(select.value)})}},
      sentences.slice(0, SENTENCES).map((one, index) => make("option", {value: index, selected: index === chosen}, `${index + 1}. ${shortLabel(one, 60)}`)));
    this.part.replaceChildren(...[
      sentences.length > 1 ? make("label", {class: "hint"}, t("part.sentence"), " ", select) : null,
      cut ? make("p", {class: "hint"}, t(app.card.kind === "gpt" ? "part.end" : "part.begin", {count: cut})) : null,
    ].filter(Boolean));
  }

  changed(names) {
    if (names.has("tour")) {
      this.view.classList.toggle("touring", this.tour.number > 0);
      this.tour.show();
    }
    if (["text", "question", "image", "checkpoint", "sentence"].some(name => names.has(name))) {
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.refresh(), PAUSE);
    } else Promise.resolve(this.current.view.changed?.(names)).catch(error => this.tell(error));
  }

  leave() {
    clearTimeout(this.waiting);
    for (const view of this.views.values()) view.leave?.();
  }
}
