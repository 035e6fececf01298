// What all views share: the models, what the reader has put in, texts in their language, and what the model computes.

import {languageOf, translator} from "./i18n/i18n.js";
import {fromSample} from "./images.js";
import {sentencesOf} from "./sentences.js";

const KEPT = 12; // explanations
const MOST_NUMBERS = 6e7; // of all attention that is looked into
const MOST_TOKENS = 300; // of a text that is looked into; more cannot be drawn
export const WRITERS = new Set(["translate", "summarize", "generate"]);

/** The input of a model as an address and a text box hold it; images are kept beside it. */
export class App {
  constructor(host, state) {
    this.host = host;
    this.state = state;
    this.picture = null; // {imageData, source} of an image model
    this.kept = new Map();
    this.pending = new Set(); // keys of explanations that are being computed
    this.cut = 0; // tokens of a long text that are looked into
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

  /** The sentences of the input, each of which is read by itself; [] if the input is read whole. */
  sentences() {
    const {text = ""} = this.state.values;
    if (this.verb === "embed") return text.split("\n").filter(line => line.trim());
    return this.verb === "translate" ? sentencesOf(text) : [];
  }

  /** The one input that is looked into: of several sentences the chosen one, of a long text what can be shown. */
  async inspected() {
    const input = await this.input(), sentences = this.sentences();
    const {sentence = 0} = this.state.values;
    const one = sentences.length ? sentences[Math.min(sentence, sentences.length - 1)] : input;
    return typeof one === "string" ? this.shortened(await this.model(), one) : one;
  }

  /** The beginning of a long text; of what a GPT continues, the end. */
  shortened(model, text) {
    const {source} = model.tokenizers, writesOn = model.kind === "gpt";
    const planes = 4 * model.shape.attention.reduce((total, {layers, heads}) => total + layers * heads, 0) || 1;
    const most = Math.min(MOST_TOKENS, Math.floor(Math.sqrt(MOST_NUMBERS / planes)), writesOn ? Math.floor(0.75 * model.config.context) : Infinity);
    this.cut = 0;
    if (text.length <= most) return text;
    const {offsets} = source.encodeWithOffsets(text);
    if (offsets.length <= most) return text;
    this.cut = most;
    return writesOn ? text.slice(offsets.at(-most)[0]) : text.slice(0, offsets[most - 1][1]);
  }

  /** A text that tells inputs apart. */
  inputKey() {
    const {text, question, image, model, checkpoint, sentence} = this.state.values;
    return JSON.stringify([model, checkpoint ?? null, this.takesImages ? this.picture?.key ?? image ?? 0 : text, question, sentence ?? 0]);
  }

  /** Stops what is computed for an input as soon as there is another one. */
  get signal() {
    const key = this.inputKey();
    if (key !== this.present) {
      this.stopper?.abort();
      for (const one of this.pending) this.kept.delete(one);
      this.pending.clear();
      [this.present, this.stopper] = [key, new AbortController()];
    }
    return this.stopper.signal;
  }

  /**
   * The explanation of the present input, with every number on the way; the same one is computed once.
   * options: {interventions, target, beam, length}
   */
  async look(options = {}, name = this.card.name) {
    let input, before;
    do {
      before = this.inputKey();
      input = await this.inspected();
    } while (before !== this.inputKey());
    const {signal} = this;
    if (input === null) return null;
    const key = JSON.stringify([name, this.inputKey(), options]);
    if (!this.kept.has(key)) {
      const found = this.compute(input, {...options, signal}, name);
      this.kept.set(key, found);
      this.pending.add(key);
      found.catch(() => this.kept.get(key) === found && this.kept.delete(key)).finally(() => !signal.aborted && this.pending.delete(key));
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
