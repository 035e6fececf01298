// What is shown, kept in the address after #, so that a copied address shows the same again.

const NUMBERS = new Set(["layer", "head", "tour", "image", "checkpoint", "sentence"]);
const OBJECTS = new Set(["change", "compare"]);
const PLACES = ["model", "view", "tour"]; // the browser's back button leads from one to the one before

/** The values in an address such as `#model=dates&text=4+May&layer=2`. */
export function readHash(hash) {
  const values = {};
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (NUMBERS.has(name)) {
      const number = Number(text);
      if (Number.isInteger(number)) values[name] = number;
    } else if (OBJECTS.has(name)) {
      try {
        values[name] = JSON.parse(text);
      } catch {
        // A damaged address shows the page without this part.
      }
    } else values[name] = text;
  }
  return values;
}

/** The address of values; those that are empty are left out. */
export function writeHash(values) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "") continue;
    const text = OBJECTS.has(name) ? JSON.stringify(value) : String(value);
    if (text !== "{}" && text !== "[]") found.set(name, text);
  }
  return `#${found}`;
}

/** Values with listeners, mirrored in the address of the page. */
export class State {
  constructor(defaults) {
    this.values = {...defaults, ...readHash(location.hash)};
    this.listeners = new Set();
    addEventListener("hashchange", () => {
      if (location.hash === this.written) return;
      this.written = location.hash;
      const none = Object.fromEntries(Object.keys(this.values).map(name => [name, undefined]));
      this.change({...none, ...defaults, ...readHash(location.hash)});
    });
  }

  /** Change some values; listeners are called with the names of those that are different now. */
  set(changes) {
    const elsewhere = PLACES.some(name => name in changes && (changes[name] || null) !== (this.values[name] || null));
    if (elsewhere) this.write(); // where the back button leads to
    this.change(changes);
    if (elsewhere) history.pushState(null, "", this.written = writeHash(this.values));
    else this.waiting = setTimeout(() => this.write(), 150);
  }

  change(changes) {
    clearTimeout(this.waiting);
    const names = Object.keys(changes).filter(name => JSON.stringify(changes[name]) !== JSON.stringify(this.values[name]));
    if (!names.length) return;
    Object.assign(this.values, changes);
    for (const listener of this.listeners) listener(new Set(names));
  }

  write() {
    clearTimeout(this.waiting);
    this.written = writeHash(this.values);
    if (this.written !== location.hash) history.replaceState(null, "", this.written);
  }

  /** The whole address, for sharing. */
  address() {
    this.write();
    return location.href;
  }

  listen(listener) {
    this.listeners.add(listener);
  }
}
