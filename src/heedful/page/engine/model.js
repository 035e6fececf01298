/** A model that is open: its network, tokenizers and checkpoints, and everything one can do with it. */

import { Attention } from "./attention.js";
import { BeamSearch } from "./beam.js";
import { Bert } from "./bert.js";
import { generate, sentenceOf, summarize, translate } from "./decode_verbs.js";
import { answer, classify, embed, fill, tag } from "./encoder_verbs.js";
import { explain } from "./explain.js";
import { GPT } from "./gpt.js";
import { Interventions } from "./interventions.js";
import { Recurrent } from "./recurrent.js";
import { Seq2Seq } from "./seq2seq.js";
import { Tokenizer } from "./tokenizer.js";
import { InputError, Turns } from "./turns.js";
import { ViT } from "./vit.js";
import { Weights } from "./weights.js";
import { Writer } from "./writer.js";

const NETWORKS = { seq2seq: Seq2Seq, recurrent: Recurrent, gpt: GPT, bert: Bert, vit: ViT };
const VERBS = { translate, summarize, generate, fill, classify, tag, answer, embed };
const SEQUENCES = { encoder: "source", decoder: "target" };

export class Model {
  /**
   * @param {import("./weights.js").Header} header
   * @param {Uint8Array} data
   */
  constructor(header, data) {
    this.header = header;
    this.data = data;
    this.name = header.name;
    this.job = header.job;
    this.kind = header.kind;
    this.verbs = header.verbs;
    this.about = header.about;
    this.parameters = header.parameters;
    this.bits = header.bits;
    this.config = header.config;
    this.settings = header.settings;
    this.labels = header.labels;
    this.samples = header.samples;
    /** @type {{label: string, step: number | null}[]} */
    this.checkpoints = header.checkpoints.map(({ step }) => ({ label: step ? `step ${step}` : "before training", step }));
    if (this.checkpoints.length) this.checkpoints.push({ label: "trained", step: null });
    this.checkpoint = Math.max(0, this.checkpoints.length - 1);
    /** @type {any[]} */
    this.networks = [];
    this.network = this.networkOf(this.checkpoint);
    const { source, target } = header.tokenizers;
    const first = source ? new Tokenizer(source) : null;
    this.tokenizers = { source: first, target: target ? new Tokenizer(target) : first };
  }

  /**
   * The network with the weights of a checkpoint, made when it is first asked for.
   * @param {number} index
   */
  networkOf(index) {
    const entries = this.header.checkpoints[index]?.weights ?? this.header.weights;
    const Network = NETWORKS[/** @type {keyof typeof NETWORKS} */ (this.kind)];
    if (!Network) throw new InputError(`there is no engine for models of kind ${this.kind}`);
    return (this.networks[index] ??= new Network(new Weights(entries, this.data), this.config));
  }

  /** Compute with these weights from now on. @param {number} index */
  async useCheckpoint(index) {
    if (!(Number.isInteger(index) && index >= 0 && index < Math.max(1, this.checkpoints.length))) {
      throw new InputError(`there is no checkpoint ${index}; there are ${this.checkpoints.length}`);
    }
    this.checkpoint = index;
    this.network = this.networkOf(index);
  }

  /** @param {"source" | "target"} which @returns {Tokenizer} */
  tokenizer(which) {
    const found = this.tokenizers[which];
    if (!found) throw new InputError(`${this.name} reads images, not text`);
    return found;
  }

  /** What parts the model has. */
  get shape() {
    const { config, kind, network } = this;
    const paired = kind === "seq2seq" || kind === "recurrent";
    const depth = config.decoder_layers ?? config.layers;
    const stack = (/** @type {"encoder" | "decoder"} */ name, /** @type {number} */ layers) => ({
      name, layers, sequence: paired ? SEQUENCES[name] : "input",
    });
    const attention = (/** @type {string} */ name, /** @type {number} */ layers, heads = config.heads) => ({ name, layers, heads });
    /** @type {{name: string, layers: number, heads: number}[]} */
    let attentions = [attention(kind === "gpt" ? "decoder" : "encoder", config.layers)];
    if (kind === "seq2seq") attentions = [attentions[0], attention("decoder", depth), attention("cross", depth)];
    if (kind === "recurrent") attentions = config.attention === "none" ? [] : [attention("cross", 1, 1)];
    if (network.pooling instanceof Object && network.pooling.attention instanceof Attention) attentions.push(attention("pooling", 1));
    return {
      stacks: paired ? [stack("encoder", config.layers), stack("decoder", depth)]
        : [stack(kind === "gpt" ? "decoder" : "encoder", config.layers)],
      attention: attentions,
      vocabulary: network.lens.length > 0,
      positions: config.positions ?? (kind === "recurrent" ? "none" : "learned"),
      norm: config.norm ?? { bert: "post", vit: "pre" }[kind] ?? null,
      causal: kind === "seq2seq" || kind === "gpt",
      divided: kind !== "recurrent" || config.attention === "scaled-dot", // whether scores are divided by the root of a width
      residual: kind !== "recurrent",
    };
  }

  /**
   * What one computation carries: its turns, the interventions, and what is kept.
   * @param {any} options
   * @param {import("./attention.js").Record} [record]
   * @returns {import("./attention.js").Run}
   */
  begin(options, record = "nothing") {
    const turns = new Turns(options.signal);
    turns.check();
    return { turns, act: new Interventions(options.interventions), record };
  }

  /**
   * A verb with its input and options.
   * @param {string} name
   * @param {any} input
   * @param {any} [options]
   */
  async verb(name, input, options = {}) {
    if (!this.verbs.includes(name)) throw new InputError(`${this.name} cannot ${name}; it can ${this.verbs.join(" and ")}`);
    return VERBS[/** @type {keyof typeof VERBS} */ (name)](this, input, options);
  }

  /** @param {any} input @param {any} [options] */
  do(input, options) { return this.verb(this.verbs[0], input, options); }
  /** @param {string} text @param {any} [options] */
  translate(text, options) { return this.verb("translate", text, options); }
  /** @param {string} text @param {any} [options] */
  summarize(text, options) { return this.verb("summarize", text, options); }
  /** @param {string} prompt @param {any} [options] */
  generate(prompt, options) { return this.verb("generate", prompt, options); }
  /** @param {string} text @param {any} [options] */
  fill(text, options) { return this.verb("fill", text, options); }
  /** @param {any} input @param {any} [options] */
  classify(input, options) { return this.verb("classify", input, options); }
  /** @param {string} text @param {any} [options] */
  tag(text, options) { return this.verb("tag", text, options); }
  /** @param {{question: string, passage: string}} input @param {any} [options] */
  answer(input, options) { return this.verb("answer", input, options); }
  /** @param {string} text @param {any} [options] */
  embed(text, options) { return this.verb("embed", text, options); }

  /**
   * Write step by step.
   * @param {string} input
   * @param {any} [options]
   */
  async startWriter(input, options = {}) {
    this.mustWrite();
    const run = this.begin(options);
    return new Writer(this.network, run, sentenceOf(this, run, input, { ...options, sample: true })).begin();
  }

  /**
   * A beam search step by step.
   * @param {string} input
   * @param {any} [options]
   */
  async startBeam(input, options = {}) {
    this.mustWrite();
    const run = this.begin(options);
    const sentence = sentenceOf(this, run, input, options);
    sentence.beam = Math.max(2, options.beam ?? this.settings.beam ?? 4);
    sentence.nBest = sentence.beam;
    return new BeamSearch(this.network, run, sentence).begin();
  }

  mustWrite() {
    if (!this.network.step) throw new InputError(`${this.name} does not write text`);
  }

  /**
   * Everything that happens inside for an input.
   * @param {any} input
   * @param {any} [options]
   */
  run(input, options = {}) {
    return explain(this, input, options);
  }
}
