// Where the page gets its models from: out of its own file, or from the server that serves it.

const KEY = "heedful-key"; // of the session storage: the API key a reader has given

/** Something the reader can be told in words. */
export class PageError extends Error {
  constructor(message, code = "") {
    super(message);
    this.code = code;
  }
}

/** The models of this page, opened when they are first needed. */
class Host {
  constructor(models) {
    this.models = models;
    this.opened = new Map();
    this.ready = new Set(); // names of models whose weights are there
    this.progress = () => {};
  }

  /** A model with its weights. */
  open(name) {
    if (!this.opened.has(name)) {
      const opening = this.read(name);
      opening.catch(() => this.opened.delete(name));
      this.opened.set(name, opening);
    }
    return this.opened.get(name);
  }

  async read(name) {
    const [{openModel}, bytes] = await Promise.all([import("./engine/index.js"), this.bytes(name)]);
    const model = await openModel(bytes);
    this.ready.add(name);
    return model;
  }

  isOpen(name) {
    return this.ready.has(name);
  }
}

/** Models inside the file: the weights are in elements of their own, as base64. */
class FileHost extends Host {
  constructor(manifest) {
    super(manifest.models);
    this.served = false;
  }

  async bytes(name) {
    const {element} = this.models.find(model => model.name === name);
    const holder = document.getElementById(element);
    const answer = await fetch(`data:application/octet-stream;base64,${holder.textContent.trim()}`);
    return answer.arrayBuffer();
  }
}

/** Models on the server that serves the page. */
class ServerHost extends Host {
  constructor(manifest) {
    super(manifest.models);
    this.served = true;
  }

  headers() {
    const key = sessionStorage.getItem(KEY);
    return key ? {Authorization: `Bearer ${key}`} : {};
  }

  useKey(key) {
    sessionStorage.setItem(KEY, key);
  }

  async bytes(name) {
    const {url, problem} = this.models.find(model => model.name === name);
    if (problem) throw new PageError(problem);
    const answer = await fetch(url, {headers: this.headers()});
    await refuse(answer);
    const bytes = Number(answer.headers.get("content-length"));
    const reader = answer.body.getReader(), parts = [];
    for (let loaded = 0; ;) {
      const {done, value} = await reader.read();
      if (done) return new Blob(parts).arrayBuffer();
      parts.push(value);
      loaded += value.length;
      this.progress(Math.min(1, loaded / (bytes || loaded)));
    }
  }

  /** The results of a verb for each input, computed by the server. */
  async ask(verb, model, inputs, options, signal) {
    const answer = await fetch(`/api/${verb}`, {
      method: "POST", signal, headers: {"Content-Type": "application/json", ...this.headers()},
      body: JSON.stringify({model, inputs, ...options}),
    });
    await refuse(answer);
    const {results} = await answer.json();
    const failed = results.find(({error}) => error);
    if (failed) throw new PageError(failed.error);
    return results;
  }
}

async function refuse(answer) {
  if (answer.ok) return;
  const said = await answer.json().catch(() => ({}));
  const message = typeof said.error === "string" ? said.error : said.error?.message ?? said.detail ?? `${answer.status} ${answer.statusText}`;
  throw new PageError(message, answer.status === 401 ? "key" : "");
}

/** The host of this page. */
export async function findHost() {
  const inside = document.getElementById("heedful-models");
  if (inside) return new FileHost(JSON.parse(inside.textContent));
  const answer = await fetch("/page/models.json", {headers: sessionStorage.getItem(KEY) ? {Authorization: `Bearer ${sessionStorage.getItem(KEY)}`} : {}});
  await refuse(answer);
  return new ServerHost(await answer.json());
}
