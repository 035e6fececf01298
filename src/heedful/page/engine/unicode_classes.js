/** Classes of characters as the Rust library under Python's tokenizers knows them: its tables are older than a browser's. */

// Characters that became punctuation, non-spacing marks or format characters since: ranges in hexadecimal.
const NEW_PUNCTUATION =
  "61d 9fd a76 c77 c84 1b4e-1b4f 1b7d-1b7f 2e43-2e4f 2e52-2e5d 10d6e 10ead 10ed0 10f55-10f59 10f86-10f89 113d4-113d5 " +
  "113d7-113d8 1144b-1144f 1145a-1145b 1145d 11660-1166c 116b9 1183b 11944-11946 119e2 11a3f-11a46 11a9a-11a9c 11a9e-11aa2 " +
  "11b00-11b09 11be1 11c41-11c45 11c70-11c71 11ef7-11ef8 11f43-11f4f 11fff 12ff1-12ff2 16d6d-16d6f 16e97-16e9a 16fe2 1e5ff " +
  "1e95e-1e95f";
const NEW_MARKS =
  "7fd 897-89f 8ca-8e1 9fe afa-aff b55 c04 c3c d00 d3b-d3c d81 eba ece 180f 1885-1886 1abf-1add 1ae0-1aeb 1df6-1dfb a82c a8c5 " +
  "a8ff a9bd 10d24-10d27 10d69-10d6d 10eab-10eac 10efa-10eff 10f46-10f50 10f82-10f85 11070 11073-11074 110c2 111c9 111cf 1123e " +
  "11241 1133b 113bb-113c0 113ce 113d0 113d2 113e1-113e2 11438-1143f 11442-11444 11446 1145e 1182f-11837 11839-1183a " +
  "1193b-1193c 1193e 11943 119d4-119d7 119da-119db 119e0 11a01-11a0a 11a33-11a38 11a3b-11a3e 11a47 11a51-11a56 11a59-11a5b " +
  "11a8a-11a96 11a98-11a99 11b60 11b62-11b64 11b66 11c30-11c36 11c38-11c3d 11c3f 11c92-11ca7 11caa-11cb0 11cb2-11cb3 " +
  "11cb5-11cb6 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d45 11d47 11d90-11d91 11d95 11d97 11ef3-11ef4 11f00-11f01 11f36-11f3a " +
  "11f40 11f42 11f5a 13440 13447-13455 1611e-16129 1612d-1612f 16f4f 16fe4 1cf00-1cf2d 1cf30-1cf46 1e000-1e006 1e008-1e018 " +
  "1e01b-1e021 1e023-1e024 1e026-1e02a 1e08f 1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef 1e6e3 1e6e6 1e6ee-1e6ef " +
  "1e6f5 1e944-1e94a";
// And those that became letters and numbers since the tables of its regular expressions.
const NEW_LETTERS =
  "88f c5c cdc a7ce-a7cf a7d2 a7d4 a7f1 10940-10959 10ec5-10ec7 11db0-11ddb 16ea0-16eb8 16ebb-16ed3 16ff2-16ff3 187f8-187ff " +
  "18d09-18d1e 18d80-18df2 1e6c0-1e6de 1e6e0-1e6e2 1e6e4-1e6e5 1e6e7-1e6ed 1e6f0-1e6f4 1e6fe-1e6ff 2b73a-2b73f 2cea2-2cead " +
  "323b0-33479";
const NEW_NUMBERS = "11de0-11de9 16ff4-16ff6";
const NEW_FORMATS = "890-891 8e2 110cd 13430-1343f";

/** @param {string} ranges */
function inClass(ranges) {
  return ranges
    .split(" ")
    .map((range) => range.split("-").map((code) => `\\u{${code}}`).join("-"))
    .join("");
}

const LETTER = `(?:(?![${inClass(NEW_LETTERS)}])\\p{L})`;
const NUMBER = `(?:(?![${inClass(NEW_NUMBERS)}])\\p{N})`;
const OTHER = `(?:[${inClass(`${NEW_LETTERS} ${NEW_NUMBERS}`)}]|[^\\p{White_Space}\\p{L}\\p{N}])`;

/** GPT-2's words. */
export const WORDS_OF_GPT2 = new RegExp(
  `'s|'t|'re|'ve|'m|'ll|'d| ?${LETTER}+| ?${NUMBER}+| ?${OTHER}+|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+`, "gu",
);
export const SPACE = /^\p{White_Space}$/u;
export const PUNCTUATION = new RegExp(`(?![${inClass(NEW_PUNCTUATION)}])[!-/:-@[-\`{-~\\p{P}\\u{166d}\\u{111c9}]`, "gu");
export const NON_SPACING_MARK = new RegExp(`^(?![${inClass(NEW_MARKS)}])[\\p{Mn}\\u{1734}\\u{1171e}]$`, "u");
export const COMBINING_MARK = new RegExp(`^(?![${inClass(NEW_MARKS)}])\\p{M}$`, "u");
export const CONTROL = new RegExp(`^(?![${inClass(NEW_FORMATS)}])[\\p{Cc}\\p{Cf}\\p{Co}]$`, "u");
export const WORD = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]$/u;
