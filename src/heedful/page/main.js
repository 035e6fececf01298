// The page: the plain view first, and, when asked for, everything inside the model.

import {App} from "./app.js";
import {bring, button, choices, make, makeSvg} from "./dom.js";
import {repaintAll} from "./draw/paint.js";
import {findHost} from "./host.js";
import {LANGUAGES} from "./i18n/i18n.js";
import {State} from "./state.js";
import {PlainView} from "./views/plain.js";

const THEMES = ["auto", "light", "dark"];

/** Three words and the lines between them. */
function logo() {
  return makeSvg("svg", {viewBox: "0 0 32 32", width: 28, height: 28, "aria-hidden": "true", class: "logo"},
    makeSvg("path", {d: "M6 8C16 8 16 24 26 24M6 24C16 24 16 8 26 8M6 8C12 8 20 8 26 8"}),
    ...[[6, 8], [6, 24], [26, 8], [26, 24]].map(([cx, cy]) => makeSvg("circle", {cx, cy, r: 3.4})));
}

class Page {
  constructor(root, app) {
    this.root = root;
    this.app = app;
    this.draw();
    app.state.listen(names => this.changed(names));
  }

  draw() {
    const {app} = this, {t, card} = app;
    document.title = `${card.name} — heedful`;
    this.plain = new PlainView(app);
    this.inside = make("div", {id: "inside"});
    this.look = button(t("page.lookInside"), () => {
      app.state.set({view: app.state.values.view ? "" : "flow"});
      if (app.state.values.view) bring(this.look);
    }, {class: "main look", "aria-expanded": false});
    this.root.replaceChildren(
      make("a", {class: "skip", href: "#inside", on: {click: event => {
        event.preventDefault();
        this.look.focus();
      }}}, t("page.skip")),
      make("header", {class: "topbar"}, make("div", {class: "wordmark"}, logo(), make("span", {}, "heedful")), this.chooser(), this.language(), this.theme()),
      make("main", {}, make("div", {class: "title"}, make("h1", {}, t(`job.${card.job}`, {}, card.job)), make("p", {}, this.about())),
        this.plain.view, make("div", {class: "middle"}, this.look), this.inside),
      make("footer", {}, t(app.host.served ? "page.footerServed" : "page.footer")));
    this.setTheme();
    if (app.state.values.view) this.open();
  }

  about() {
    const {t, card} = this.app;
    const facts = [card.about && make("bdi", {}, card.about), card.parameters && t("page.parameters", {count: card.parameters.toLocaleString(this.app.language)})];
    return facts.filter(Boolean).flatMap((fact, index) => index ? [" · ", fact] : [fact]);
  }

  /** Which of several models is used. */
  chooser() {
    const {app} = this, {host, t} = app;
    if (host.models.length < 2) return make("span", {class: "modelname"}, make("bdi", {}, app.card.name));
    const select = make("select", {"aria-label": t("page.model"), on: {change: () => app.state.set({model: select.value, checkpoint: null, change: {}, part: "", target: "", text: "", question: "", image: 0})}},
      host.models.map(({name, job}) => make("option", {value: name, selected: name === app.card.name}, `${name} — ${t(`job.${job}`, {}, job)}`)));
    return select;
  }

  language() {
    const {app} = this;
    const names = Object.keys(LANGUAGES);
    const {view, show} = choices(names.map(name => [LANGUAGES[name].name, LANGUAGES[name].name]), index => app.state.set({lang: names[index]}), {class: "choices language", "aria-label": "Language, 언어"});
    show(names.indexOf(app.language));
    return view;
  }

  theme() {
    const {app} = this;
    const now = app.state.values.theme ?? "auto";
    return button({auto: "◐", light: "☀", dark: "☾"}[now] ?? "◐", () => app.state.set({theme: THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]}), {class: "quiet theme", title: app.t("theme.about"), "aria-label": `${app.t(`theme.${now}`)}. ${app.t("theme.about")}`});
  }

  setTheme() {
    const {theme} = this.app.state.values;
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    repaintAll();
  }

  /** Load the rest of the page, and show it. */
  async open() {
    const {app} = this, {t} = app;
    this.look.textContent = t("page.closeInside");
    this.look.setAttribute("aria-expanded", "true");
    if (this.explorer) return this.explorer.show();
    const progress = make("progress", {max: 1, "aria-label": t("page.loading")});
    app.host.progress = share => { progress.value = share; };
    this.inside.replaceChildren(make("div", {class: "loading"}, make("p", {}, t("page.loading")), progress));
    try {
      const [{Explorer}, model] = await Promise.all([import("./views/explorer.js"), app.model()]);
      this.explorer = new Explorer(app, model);
      this.inside.replaceChildren(this.explorer.view);
      this.explorer.show();
    } catch (error) {
      this.inside.replaceChildren(make("p", {class: "problem card inner", role: "alert"}, error.message));
    }
  }

  close() {
    this.look.textContent = this.app.t("page.lookInside");
    this.look.setAttribute("aria-expanded", "false");
    this.inside.replaceChildren();
    this.explorer?.leave();
    this.explorer = null;
  }

  changed(names) {
    const {app} = this, has = (...list) => list.some(name => names.has(name));
    if (has("lang")) app.setLanguage();
    if (has("model", "lang", "theme")) {
      this.explorer?.leave();
      this.explorer = null;
      if (has("model")) {
        app.picture = null;
        app.forget();
        firstSample(app);
      }
      this.draw();
      return;
    }
    if (has("text", "question", "image", "checkpoint")) {
      this.plain.fillIn();
      if (has("image") && !has("text")) this.plain.run();
      else this.plain.later();
    }
    if (has("view")) {
      if (app.state.values.view) this.open();
      else this.close();
    } else this.explorer?.changed(names);
  }
}

/** Begin with a sample where the address has no input. */
function firstSample(app) {
  const {text, question, image} = app.state.values, sample = app.card.samples?.[0];
  if (text || question || image || !sample || app.takesImages) return;
  Object.assign(app.state.values, sample.question ? {question: sample.question, text: sample.passage} : {text: sample.text ?? sample});
}

/** Start the page inside an element. */
export async function start(root) {
  try {
    const app = new App(await findHost(), new State({theme: "auto", view: ""}));
    firstSample(app);
    return new Page(root, app);
  } catch (error) {
    root.replaceChildren(make("p", {class: "problem"}, error.message));
    throw error;
  }
}

// A file that is dropped beside its place would replace the page.
for (const name of ["dragover", "drop"]) addEventListener(name, event => event.preventDefault());

const root = document.getElementById("app");
if (root) globalThis.heedfulPage = start(root);
