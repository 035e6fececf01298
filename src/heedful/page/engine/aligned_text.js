/** Text as characters that remember which part of the original text they came from, through every change. */

/** A stretch of text: one entry per character (code point); `starts` and `ends` are places in the original text. */
export class AlignedText {
  /**
   * @param {string[]} chars
   * @param {number[]} starts
   * @param {number[]} ends
   */
  constructor(chars, starts, ends) {
    this.chars = chars;
    this.starts = starts;
    this.ends = ends;
  }

  /** @param {string} text whose lone surrogates become U+FFFD, as no tokenizer can have them */
  static of(text) {
    const chars = [];
    const starts = [];
    const ends = [];
    let at = 0;
    for (const char of text) {
      const lone = char.length === 1 && char >= "\ud800" && char <= "\udfff";
      chars.push(lone ? "\ufffd" : char);
      starts.push(at);
      at += char.length;
      ends.push(at);
    }
    return new AlignedText(chars, starts, ends);
  }

  get length() {
    return this.chars.length;
  }

  get text() {
    return this.chars.join("");
  }

  /**
   * @param {number} first
   * @param {number} last
   */
  slice(first, last) {
    return new AlignedText(this.chars.slice(first, last), this.starts.slice(first, last), this.ends.slice(first, last));
  }

  /**
   * Every character replaced by none, one or several, which all come from where it came from.
   * @param {(char: string) => Iterable<string>} change
   */
  map(change) {
    const out = new AlignedText([], [], []);
    this.chars.forEach((char, index) => {
      for (const other of change(char)) out.push(other, this.starts[index], this.ends[index]);
    });
    return out;
  }

  /**
   * @param {string} char
   * @param {number} start
   * @param {number} end
   */
  push(char, start, end) {
    this.chars.push(char);
    this.starts.push(start);
    this.ends.push(end);
  }

  /**
   * Put a character before the text; it comes from where the first one comes from.
   * @param {string} char
   */
  unshift(char) {
    const start = this.starts[0] ?? 0;
    this.chars.unshift(char);
    this.ends.unshift(this.ends[0] ?? start);
    this.starts.unshift(start);
  }

  /**
   * What a pattern matches replaced by another text, which comes from where the last character of the match came from.
   * @param {RegExp} pattern with the flag g
   * @param {string} content
   */
  replace(pattern, content) {
    const out = new AlignedText([], [], []);
    let end = 0;
    const copy = (/** @type {number} */ last) => {
      for (; end < last; end++) out.push(this.chars[end], this.starts[end], this.ends[end]);
    };
    for (const { first, last } of this.matches(pattern)) {
      if (last === first) continue;
      copy(first);
      for (const char of content) out.push(char, this.starts[last - 1], this.ends[last - 1]);
      end = last;
    }
    copy(this.length);
    return out;
  }

  /**
   * The places, counted in characters, of everything that a pattern matches.
   * @param {RegExp} pattern with the flag g
   * @returns {{first: number, last: number}[]}
   */
  matches(pattern) {
    const places = [];
    for (const [index, char] of this.chars.entries()) for (let unit = 0; unit < char.length; unit++) places.push(index);
    places.push(this.chars.length);
    const found = [];
    for (const match of this.text.matchAll(pattern)) {
      found.push({ first: places[match.index], last: places[match.index + match[0].length] });
    }
    return found;
  }
}

/**
 * A text as a pattern that matches just it.
 * @param {string} text
 */
export function literally(text) {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}
