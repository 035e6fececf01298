/** Long computations in short turns: the page stays responsive, and what nobody waits for any more is stopped. */

const LONGEST = 10; // milliseconds of computing before the event loop gets its turn

/** A mistake of the user, in words. */
export class InputError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "InputError";
  }
}

/** @returns {Promise<void>} after everything else that waits has had its turn */
function nextTurn() {
  const { setImmediate } = /** @type {any} */ (globalThis); // Node's
  if (setImmediate) return new Promise((resolve) => setImmediate(resolve));
  return new Promise((resolve) => {
    // A timeout would wait for at least 4 ms; scheduler.yield would overtake the timers that stop a computation.
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve();
    };
    channel.port2.postMessage(null);
  });
}

/** The turns of one computation. */
export class Turns {
  /** @param {AbortSignal} [signal] */
  constructor(signal) {
    this.signal = signal;
    this.since = performance.now();
  }

  /** Whether it is time for `pause`. */
  get due() {
    return performance.now() - this.since > LONGEST;
  }

  /** Give the event loop a turn if it is time; throws an AbortError when the computation was stopped. */
  async pause() {
    if (!this.due) return;
    await nextTurn();
    this.since = performance.now();
    this.check();
  }

  /** Throw an AbortError when the computation was stopped. */
  check() {
    if (this.signal?.aborted) {
      const error = new Error("stopped");
      error.name = "AbortError";
      throw error;
    }
  }
}
