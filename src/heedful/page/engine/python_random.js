/** The random numbers of Python's `random.Random(seed)`, so that a seed writes the same text here as on the command line. */

const SIZE = 624;

/** SHA-512 of bytes, with which Python turns a text into a seed.
 * @param {Uint8Array} message
 */
function sha512(message) {
  const mask = (1n << 64n) - 1n;
  const primes = firstPrimes(80);
  // The fractions of square roots (the start) and cube roots (the constants) of the first primes.
  const constants = primes.map((prime) => root(BigInt(prime) << 192n, 3n) & mask);
  const hash = primes.slice(0, 8).map((prime) => root(BigInt(prime) << 128n, 2n) & mask);
  const padded = new Uint8Array(Math.ceil((message.length + 17) / 128) * 128);
  padded.set(message);
  padded[message.length] = 0x80;
  new DataView(padded.buffer).setBigUint64(padded.length - 8, BigInt(8 * message.length));
  const turn = (/** @type {bigint} */ x, /** @type {bigint} */ by) => ((x >> by) | (x << (64n - by))) & mask;
  for (let block = 0; block < padded.length; block += 128) {
    const view = new DataView(padded.buffer, block, 128);
    const w = Array.from({ length: 16 }, (_, i) => view.getBigUint64(8 * i));
    for (let i = 16; i < 80; i++) {
      const s0 = turn(w[i - 15], 1n) ^ turn(w[i - 15], 8n) ^ (w[i - 15] >> 7n);
      const s1 = turn(w[i - 2], 19n) ^ turn(w[i - 2], 61n) ^ (w[i - 2] >> 6n);
      w.push((w[i - 16] + s0 + w[i - 7] + s1) & mask);
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 80; i++) {
      const s1 = turn(e, 14n) ^ turn(e, 18n) ^ turn(e, 41n);
      const first = (h + s1 + ((e & f) ^ (~e & mask & g)) + constants[i] + w[i]) & mask;
      const s0 = turn(a, 28n) ^ turn(a, 34n) ^ turn(a, 39n);
      const second = (s0 + ((a & b) ^ (a & c) ^ (b & c))) & mask;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) & mask, c, b, a, (first + second) & mask];
    }
    [a, b, c, d, e, f, g, h].forEach((value, i) => (hash[i] = (hash[i] + value) & mask));
  }
  const out = new Uint8Array(64);
  hash.forEach((value, i) => new DataView(out.buffer).setBigUint64(8 * i, value));
  return out;
}

/** @param {number} count */
function firstPrimes(count) {
  /** @type {number[]} */
  const found = [];
  for (let n = 2; found.length < count; n++) if (found.every((prime) => n % prime)) found.push(n);
  return found;
}

/**
 * ⌊x^(1/n)⌋
 * @param {bigint} x
 * @param {bigint} n
 */
function root(x, n) {
  let low = 0n;
  let high = 1n << 80n;
  while (low + 1n < high) {
    const middle = (low + high) / 2n;
    if (middle ** n <= x) low = middle;
    else high = middle;
  }
  return low;
}

/** The Mersenne Twister, seeded by a text as Python does. */
export class PythonRandom {
  /** @param {string} seed */
  constructor(seed) {
    const text = new TextEncoder().encode(seed);
    const bytes = [...text, ...sha512(text)].reverse();
    const key = [];
    for (let i = 0; i < bytes.length; i += 4) {
      key.push((bytes[i] | ((bytes[i + 1] ?? 0) << 8) | ((bytes[i + 2] ?? 0) << 16) | ((bytes[i + 3] ?? 0) << 24)) >>> 0);
    }
    while (key.length > 1 && key[key.length - 1] === 0) key.pop();
    this.state = new Uint32Array(SIZE);
    this.next = SIZE;
    this.fill(key);
  }

  /** @param {number[]} key */
  fill(key) {
    const { state } = this;
    state[0] = 19650218;
    for (let i = 1; i < SIZE; i++) state[i] = Math.imul(1812433253, state[i - 1] ^ (state[i - 1] >>> 30)) + i;
    let i = 1;
    const mixed = (/** @type {number} */ factor) => state[i] ^ Math.imul(state[i - 1] ^ (state[i - 1] >>> 30), factor);
    const advance = () => {
      if (++i < SIZE) return;
      state[0] = state[SIZE - 1];
      i = 1;
    };
    for (let k = 0, j = 0; k < Math.max(SIZE, key.length); k++, j = (j + 1) % key.length) {
      state[i] = mixed(1664525) + key[j] + j;
      advance();
    }
    for (let k = 1; k < SIZE; k++) {
      state[i] = mixed(1566083941) - i;
      advance();
    }
    state[0] = 0x80000000;
  }

  bits() {
    const { state } = this;
    if (this.next === SIZE) {
      for (let i = 0; i < SIZE; i++) {
        const y = (state[i] & 0x80000000) | (state[(i + 1) % SIZE] & 0x7fffffff);
        state[i] = state[(i + 397) % SIZE] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
      }
      this.next = 0;
    }
    let y = state[this.next++];
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  /** A number in [0, 1), as `random()` gives. */
  random() {
    const high = this.bits() >>> 5;
    const low = this.bits() >>> 6;
    return (high * 67108864 + low) / 9007199254740992;
  }
}
