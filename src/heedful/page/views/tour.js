// The guided tour: one question that learners are stuck on per step, each with the page set up on the reader's own model.

import {bring, button, make} from "../dom.js";
import {familyPicture} from "../draw/family.js";
import {givenTokens, shuffled} from "../change.js";

const CLEAN = {change: {}, target: "", stack: "", part: ""};

/** What a model has, for choosing what a step shows. */
function featuresOf(app, model) {
  const {attention = [], norm} = model.shape ?? {};
  const parts = attention.map(({name}) => name), stack = model.kind === "gpt" ? "decoder" : "encoder";
  return {
    kind: model.kind, norm, parts, stack, depth: attention.find(({name}) => name === stack)?.layers ?? 1, cross: parts.includes("cross"),
    causal: ["seq2seq", "gpt"].includes(model.kind), transformer: model.kind !== "recurrent", divisor: parts.length > 0 && model.shape.divided,
    projected: model.kind !== "recurrent", names: model.kind === "recurrent" && !parts.length ? ["unattending", "recurrent"] : [model.kind],
  };
}

/** The steps: `needs` names what the model must have, `set` gives the values of the page, `look` says where the answer is seen. */
export const STEPS = [
  {id: "parallel", needs: "transformer", set: ({stack}) => ({view: "flow", stack, layer: 1, head: 1}), look: ".stage-qkv, .stage"},
  {id: "between", needs: "cross", set: () => ({view: "attention", part: "cross", layer: 1, head: 0, mode: "lines"}), look: ".attention .both"},
  {id: "mask", needs: "causal", set: async (features, app) => ({view: "whatif", part: "decoder", layer: 1, head: 1, change: {causal: false}, target: await ownTarget(app)}), look: ".given, .maps"},
  {id: "divisor", needs: "divisor", set: ({stack, transformer}) => ({view: "whatif", part: transformer ? stack : "cross", layer: 1, head: 1, change: {divisor: 1}}), look: ".maps"},
  {id: "positions", needs: "transformer", set: async (features, app) => ({view: "whatif", part: features.stack, layer: 1, head: 0, change: {positions: false, ...await shuffle(app)}}), look: ".verdict"},
  {id: "heads", needs: "parts", set: ({cross, stack}) => ({view: "attention", part: cross ? "cross" : stack, layer: 2, head: 1, mode: "lines"}), look: ".attention .both"},
  {id: "residual", needs: "transformer", set: ({stack, depth}) => ({view: "whatif", part: stack, layer: depth, head: 1, change: {residual: false}}), look: ".outputs"},
  {id: "keysvalues", needs: "projected", set: ({stack}) => ({view: "flow", stack, layer: 1, head: 1}), look: ".stage-mix"},
  {id: "family", needs: null, set: () => ({view: "attention", mode: "map"}), look: ".viewstage"},
];

/** A target for the open mask: what the model itself writes. */
async function ownTarget(app) {
  return (await app.look({}))?.output ?? "";
}

async function shuffle(app) {
  const explanation = await app.look({});
  if (!explanation) return {};
  const name = explanation.sequences.source ? "source" : "input";
  let seed = 7;
  const random = () => (seed = seed * 16807 % 2147483647) / 2147483647; // the same order for everybody who follows the tour
  return {permute: {[name]: shuffled(givenTokens(await app.model(), explanation), random)}};
}

export class Tour {
  constructor(app) {
    this.app = app;
    this.starter = button(app.t("tour.start"), () => this.go(1), {class: "quiet tourstart"});
    this.view = make("div", {class: "tourbox"});
    this.bar = make("div", {class: "tourbar"});
    this.seen = new IntersectionObserver(([{isIntersecting}]) => { this.bar.hidden = isIntersecting; });
    this.seen.observe(this.view);
  }

  get number() {
    return Math.min(STEPS.length, Math.max(0, this.app.state.values.tour ?? 0));
  }

  /** Go to a step and set the page up for it. */
  async go(number) {
    const {app} = this, step = STEPS[number - 1];
    const features = featuresOf(app, await app.model());
    const has = !step.needs || (step.needs === "parts" ? features.parts.length > 0 : features[step.needs]);
    const wanted = has ? await step.set(features, app) : {view: features.parts.length ? "attention" : "output"};
    app.state.set({...CLEAN, ...wanted, tour: number});
    bring(this.view);
  }

  async show() {
    const {app, number} = this, {t} = app;
    this.starter.hidden = number > 0;
    if (!number) {
      this.bar.replaceChildren();
      return this.view.replaceChildren();
    }
    const step = STEPS[number - 1], features = featuresOf(app, await app.model());
    const has = !step.needs || (step.needs === "parts" ? features.parts.length > 0 : features[step.needs]);
    if (number !== this.number) return;
    const text = key => [...features.names.map(name => `${key}.${name}`), key].map(name => t(`tour.${step.id}.${name}`, {}, "")).find(Boolean) ?? "";
    const own = features.names.map(text).find(Boolean);
    this.view.replaceChildren(make("section", {class: "card tour", "aria-label": t("tour.title"), "aria-live": "polite"},
      make("div", {class: "tourhead"}, make("span", {class: "count"}, `${number} / ${STEPS.length}`), make("ol", {class: "dots"}, STEPS.map((one, index) => make("li", {}, button("", () => this.go(index + 1), {"aria-label": t(`tour.${one.id}.question`), title: t(`tour.${one.id}.question`), "aria-current": index + 1 === number ? "step" : null})))),
        button("×", () => app.state.set({tour: 0}), {class: "quiet close", "aria-label": t("tour.close")})),
      make("h2", {}, text("question")), [...text("answer").split("\n"), has ? text("here") : ""].filter(Boolean).map(line => make("p", {}, line)), own ? make("p", {}, own) : null,
      step.id === "family" ? familyPicture(t, features.kind) : null,
      has ? make("p", {class: "try"}, make("b", {}, `${t("tour.try")} `), text("try")) : make("p", {class: "try"}, make("b", {}, `${t("tour.without")} `), text("without")),
      make("div", {class: "tools"}, number > 1 ? button(t("tour.back"), () => this.go(number - 1), {class: "quiet"}) : null, this.onward(number),
        button(`${t("tour.show")} ↓`, () => bring([...document.querySelectorAll(step.look)].find(found => found.offsetParent)), {class: "quiet"}))));
    this.bar.replaceChildren(button([make("span", {class: "count"}, `${number} / ${STEPS.length}`), make("b", {}, text("question"))], () => bring(this.view), {class: "question", title: t("tour.title")}), this.onward(number));
  }

  /** The button that leads to the next question, or out of the tour. */
  onward(number) {
    const {app} = this, {t} = app;
    return number < STEPS.length ? button(t("tour.next"), () => this.go(number + 1), {class: "main"}) : button(t("tour.end"), () => app.state.set({tour: 0}), {class: "main"});
  }
}
