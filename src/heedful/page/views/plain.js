// The first view: put something in, get the result. It asks the server where there is one, and the model in the page otherwise.

import {WRITERS} from "../app.js";
import {fromFile} from "../images.js";
import {button, make, slider} from "../dom.js";
import {splitText} from "../sentences.js";
import {answerText, answerView} from "./answers.js";

const PAUSE = {here: 250, served: 600}; // milliseconds after the last key
const LENGTH = 60; // tokens of a continuation
const LONG = 40; // characters of a sample: of longer ones there are fewer
const SENTENCES = 8; // that are compared
const OFTEN = 400; // milliseconds until more sentences of a long text are shown
const TOGETHER = 16; // sentences of one request to the server
const TOP = 5; // classes or guesses
const ALTERNATIVES = 6; // tokens that could stand in the place of another

export class PlainView {
  constructor(app) {
    this.app = app;
    this.options = {temperature: 0.8, length: LENGTH, seed: 1};
    this.output = make("div", {class: "output", "aria-live": "polite"});
    this.status = make("p", {class: "status", role: "status"});
    this.view = make("div", {class: "plain"});
    this.draw();
  }

  draw() {
    const {app} = this, {t, verb} = app;
    this.copy = button(t("plain.copy"), () => this.copyResult(), {class: "quiet"});
    this.more = ["translate"].includes(verb) ? button(t("plain.showAlternatives"), () => this.run({n_best: 4, beam: 5}), {class: "quiet"}) : null;
    if (verb === "generate") this.more = button(t("plain.again"), () => this.run({seed: this.options.seed += 1}), {class: "quiet"});
    this.view.replaceChildren(
      make("section", {class: "card pane", "aria-label": t("plain.input")}, make("h2", {}, t(`plain.input.${verb}`, {}, t("plain.input"))), this.inputs(), this.samples()),
      make("section", {class: "card pane result", "aria-label": t("plain.result")}, make("h2", {}, t(`plain.result.${verb}`, {}, t("plain.result"))),
        this.output, this.status, this.settings(), make("div", {class: "tools"}, this.copy, this.more)));
    this.run();
  }

  inputs() {
    const {app} = this, {t, verb} = app, {state} = app;
    if (app.takesImages) return this.imageInput();
    const area = make("textarea", {rows: verb === "answer" ? 7 : 4, dir: "auto", spellcheck: "false", placeholder: t(`plain.placeholder.${verb}`), "aria-label": t(verb === "answer" ? "plain.passage" : `plain.input.${verb}`),
      on: {input: () => state.set({text: area.value, target: ""})}});
    area.value = state.values.text ?? "";
    this.area = area;
    if (verb === "fill") {
      const insert = button("[MASK]", () => {
        area.setRangeText("[MASK]", area.selectionStart, area.selectionEnd, "end");
        area.focus();
        state.set({text: area.value});
      }, {class: "quiet", title: t("plain.insertMask")});
      return [area, make("div", {class: "tools"}, make("span", {class: "hint"}, t("plain.insertMask")), insert)];
    }
    if (verb !== "answer") return area;
    const question = make("input", {type: "text", dir: "auto", class: "question", placeholder: t("plain.question"), "aria-label": t("plain.question"),
      on: {input: () => state.set({question: question.value})}});
    question.value = state.values.question ?? "";
    this.question = question;
    return [question, area];
  }

  imageInput() {
    const {app} = this, {t} = app;
    const picker = make("input", {type: "file", accept: "image/*", class: "visually-hidden", "aria-label": t("plain.chooseImage"), on: {change: () => this.take(picker.files[0])}});
    this.preview = make("img", {alt: t("plain.yourImage"), class: "preview"});
    const zone = make("label", {class: "drop"}, this.preview, make("span", {}, t("plain.drop")), picker);
    for (const name of ["dragover", "dragenter"]) zone.addEventListener(name, event => {
      event.preventDefault();
      zone.classList.add("over");
    });
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", event => {
      event.preventDefault();
      zone.classList.remove("over");
      const files = [...event.dataTransfer.files];
      this.take(files.find(file => file.type.startsWith("image/")) ?? files[0]);
    });
    return zone;
  }

  async take(file) {
    if (!file) return;
    try {
      this.app.picture = await fromFile(file);
    } catch {
      this.say(this.app.t("plain.notAnImage", {name: file.name}), true);
      return;
    }
    this.app.state.set({image: -1 - Math.floor(Math.random() * 1e6)}); // no sample; another number tells the other views
    this.app.picture.sample = this.app.state.values.image;
    this.run();
  }

  samples() {
    const {app} = this, {t, state} = app;
    const all = app.card.samples ?? [], long = all.some(({text = ""}) => text.length > LONG);
    const list = all.slice(0, long ? 4 : 6);
    if (!list.length) return null;
    return make("div", {class: "samples"}, make("span", {class: "hint"}, t("plain.samples")), list.map((sample, number) => {
      if (sample.image) return button(make("img", {src: sample.image, alt: sample.label ?? t("plain.sample", {number: number + 1})}), () => {
        app.picture = null;
        state.set({image: number});
      }, {class: "sample image"});
      const text = sample.text ?? sample.question ?? sample;
      return button(make("bdi", {}, text.length > 60 ? `${text.slice(0, 58)}…` : text), () => {
        state.set(sample.question ? {question: sample.question, text: sample.passage} : {text, target: ""});
        this.fillIn();
      }, {class: "sample", title: text});
    }));
  }

  /** Put the values of the state into the fields. */
  fillIn() {
    const {text, question} = this.app.state.values;
    if (this.area && this.area.value !== (text ?? "")) this.area.value = text ?? "";
    if (this.question && this.question.value !== (question ?? "")) this.question.value = question ?? "";
  }

  settings() {
    const {t, verb} = this.app;
    if (verb !== "generate") return null;
    const set = (name, ...rest) => slider(t(`plain.${name}`), ...rest).view;
    return make("div", {class: "settings"},
      set("temperature", {min: 0.1, max: 2, step: 0.1, value: this.options.temperature}, value => this.later({temperature: value}), value => value.toFixed(1)),
      set("length", {min: 10, max: 200, step: 10, value: this.options.length}, value => this.later({length: value})));
  }

  later(options = {}) {
    Object.assign(this.options, options);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.run(), this.app.host.served ? PAUSE.served : PAUSE.here);
  }

  say(message, problem = false) {
    this.status.textContent = message;
    this.status.classList.toggle("problem", problem);
  }

  /** Options of the verb for this request. */
  optionsOf(extra) {
    const {verb} = this.app;
    if (verb === "generate") return {temperature: this.options.temperature, length: this.options.length, seed: this.options.seed, ...extra};
    return verb === "fill" || verb === "classify" ? {top: TOP, ...extra} : extra;
  }

  /** Ask the model for the present input and show what it answers. */
  async run(extra = {}) {
    const {app} = this, {t, verb, card} = app;
    clearTimeout(this.waiting);
    this.running?.abort();
    const running = this.running = new AbortController();
    try {
      const input = await app.input();
      if (app.picture && this.preview) this.preview.src = app.picture.source;
      const gapless = verb === "fill" && input !== null && !input.includes("[MASK]");
      if (input === null || gapless) {
        this.result = null;
        this.output.replaceChildren(make("p", {class: "hint"}, gapless ? t("plain.gapless") : t(`plain.nothing.${verb}`, {}, t("plain.nothing"))));
        this.say("");
        return;
      }
      const slow = setTimeout(() => this.say(t(app.host.isOpen(card.name) || app.host.served ? "plain.working" : "plain.opening")), 300);
      const asked = verb === "translate" ? this.translate(input, this.optionsOf(extra), running.signal) : this.ask(input, this.optionsOf(extra), running.signal);
      const result = await asked.finally(() => clearTimeout(slow));
      if (running.signal.aborted) return;
      this.say("");
      this.show(result, input);
    } catch (error) {
      if (error.name === "AbortError" || running.signal.aborted) return;
      if (error.code === "key") return this.askKey();
      this.result = null;
      this.output.replaceChildren();
      this.say(error.message, true);
    }
  }

  /** A text sentence by sentence; what is there is shown at once. */
  async translate(input, options, signal) {
    const {app} = this, parts = splitText(input), sentences = parts.filter(({sentence}) => sentence);
    const served = this.asksServer, together = served ? TOGETHER : 1;
    let shown = 0;
    for (let done = 0; done < sentences.length; done += together) {
      const some = sentences.slice(done, done + together);
      const results = served ? await app.host.ask("translate", app.card.name, some.map(({text}) => text), options, signal)
        : [await (await app.model()).translate(some[0].text, {...options, alternatives: ALTERNATIVES, signal})];
      if (signal.aborted) break;
      some.forEach((one, number) => { one.result = results[number]; });
      if (done + together >= sentences.length || performance.now() - shown < OFTEN) continue;
      this.show({parts}, input, false);
      this.say(`${app.t("plain.working")} ${done + together} / ${sentences.length}`);
      shown = performance.now();
    }
    return {parts};
  }

  get asksServer() {
    const {host, card} = this.app;
    return host.served && !host.isOpen(card.name);
  }

  async ask(input, options, signal) {
    const {app} = this, {verb, card, host} = app;
    const inputs = verb === "embed" ? input.split("\n").filter(line => line.trim()).slice(0, SENTENCES) : [app.takesImages ? app.picture.source : input];
    if (this.asksServer) {
      const results = await host.ask(verb, card.name, inputs, options, signal);
      return verb === "embed" ? results : results[0];
    }
    const model = await app.model();
    if (verb === "embed") return Promise.all(inputs.map(line => model.embed(line)));
    return model[verb](input, {...options, ...(WRITERS.has(verb) ? {alternatives: ALTERNATIVES} : {}), signal});
  }

  show(result, input, whole = true) {
    const {app} = this;
    this.result = result;
    this.output.replaceChildren(answerView(app.verb, result, {t: app.t, input, go: whole ? (...chosen) => this.goOn(...chosen).catch(error => this.say(error.message, true)) : null}));
    if (whole && this.asksServer && WRITERS.has(app.verb) && app.card.url && app.card.parameters < 1e7) {
      this.output.addEventListener("pointerenter", () => app.model().then(() => this.run()).catch(() => {}), {once: true});
    }
  }

  /** Write the text again up to a position, then the chosen token, then what the model adds. */
  async goOn(position, id, number = 0) {
    const {app} = this, {verb} = app, {parts} = this.result, input = await app.input();
    const tokens = parts ? parts[number].result.translations[0].tokens : this.result.tokens;
    const writer = await (await app.model()).startWriter(parts ? parts[number].text : input, {});
    for (const token of tokens.slice(0, position)) await writer.write(token.id);
    await writer.write(id);
    const most = verb === "generate" ? Math.max(position + 20, tokens.length) : Infinity;
    while (!writer.finished && writer.tokens.length < most) await writer.write();
    const shown = writer.written(ALTERNATIVES);
    const result = {
      translate: {parts: parts?.map((part, place) => place === number ? {...part, result: {translations: [{text: writer.text, tokens: shown}]}} : part)}, summarize: {summary: writer.text, tokens: shown},
      generate: {prompt: this.result.prompt, text: writer.text, tokens: shown},
    }[verb];
    if (input === await app.input()) this.show(result, input);
  }

  askKey() {
    const {t, host} = this.app;
    const key = make("input", {type: "password", autocomplete: "off", "aria-label": t("plain.key")});
    const form = make("form", {class: "tools", on: {submit: event => {
      event.preventDefault();
      host.useKey(key.value);
      this.run();
    }}}, key, make("button", {class: "main"}, t("plain.useKey")));
    this.output.replaceChildren(make("p", {}, t("plain.key")), form);
    this.say("");
  }

  async copyResult() {
    if (!this.result) return;
    const text = answerText(this.app.verb, this.result);
    try {
      await navigator.clipboard.writeText(text);
    } catch { // a file opened from disk may not have the clipboard
      const area = make("textarea", {class: "visually-hidden"}, text);
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    this.copy.textContent = this.app.t("plain.copied");
    setTimeout(() => { this.copy.textContent = this.app.t("plain.copy"); }, 1500);
  }
}
