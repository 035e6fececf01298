// What all views share: the models, what the reader has put in, texts in their language, and what the model computes.

import {languageOf, translator} from "./i18n/i18n.js";
import {fromSample} from "./images.js";

const KEPT = 12; // explanations
export const WRITERS = new Set(["translate", "summarize", "generate"]);

/** The input of a model as an address and a text box hold it; images are kept beside it. */
export class App {
  constructor(host, state) {
    this.host = host;
    this.state = state;
    this.picture = null; // {imageData, source} of an image model
    this.kept = new Map();
    this.setLanguage();
    if (!host.models.some(({name}) => name === state.values.model)) state.values.model = host.models[0].name;
  }

  setLanguage() {
    this.language = languageOf(this.state.values.lang);
    this.t = translator(this.language);
    document.documentElement.lang = this.language;
  }

  /** What is known of the model without its weights. */
  get card() {
    return this.host.models.find(({name}) => name === this.state.values.model) ?? this.host.models[0];
  }

  get verb() {
    return this.card.verbs[0];
  }

  get takesImages() {
    return this.card.job === "image-classification";
  }

  /** The model itself; its weights are loaded when it is first asked for. */
  async model(name = this.card.name) {
    const model = await this.host.open(name);
    const {checkpoint} = this.state.values;
    if (name === this.card.name && model.checkpoints?.length) await model.useCheckpoint(Math.min(checkpoint ?? Infinity, model.checkpoints.length - 1));
    return model;
  }

  /** What the reader has put in, as the verbs take it, or null if there is nothing yet. */
  async input() {
    const {text, question, image} = this.state.values;
    if (this.takesImages) {
      if (!this.picture || (this.picture.sample !== undefined && this.picture.sample !== image)) {
        const sample = this.card.samples[image ?? 0];
        this.picture = sample ? {...await fromSample(sample.image), sample: image ?? 0} : null;
      }
      return this.picture?.imageData ?? null;
    }
    if (this.verb === "answer") return text?.trim() && question?.trim() ? {question, passage: text} : null;
    if (this.verb === "generate") return text ?? "";
    return text?.trim() ? text : null;
  }

  /** The one input that is looked into: of several sentences the first. */
  async inspected() {
    const input = await this.input();
    return this.verb === "embed" && input ? input.trimStart().split("\n")[0] : input;
  }

  /** A text that tells inputs apart. */
  inputKey() {
    const {text, question, image, model, checkpoint} = this.state.values;
    return JSON.stringify([model, checkpoint ?? null, this.takesImages ? this.picture?.key ?? image ?? 0 : text, question]);
  }

  /**
   * The explanation of the present input, with every number on the way; the same one is computed once.
   * options: {interventions, target, beam, length}
   */
  async look(options = {}, name = this.card.name) {
    const input = await this.inspected();
    if (input === null) return null;
    const key = JSON.stringify([name, this.inputKey(), options]);
    if (!this.kept.has(key)) {
      const found = this.compute(input, options, name);
      this.kept.set(key, found);
      found.catch(() => this.kept.delete(key));
      if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
    }
    return this.kept.get(key);
  }

  async compute(input, options, name) {
    const model = await this.model(name);
    const found = await model.run(input, {candidates: 10, lens: true, trace: true, ...options});
    const {image} = found.sequences.input ?? {};
    if (image && this.picture) image.source = this.picture.source;
    return found;
  }

  /** Forget what was computed, because the weights are others now. */
  forget() {
    this.kept.clear();
  }
}
