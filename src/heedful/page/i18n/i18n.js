// Texts in the language of the reader: t("key", {name: value}) puts values where a text has {name}.

import {en} from "./en.js";
import {ko} from "./ko.js";

export const LANGUAGES = {en: {name: "English", texts: en}, ko: {name: "한국어", texts: ko}};

/** The language to begin with: the one asked for, else that of the browser if there is one. */
export function languageOf(asked) {
  if (asked in LANGUAGES) return asked;
  const found = (navigator.languages ?? ["en"]).map(one => one.slice(0, 2)).find(one => one in LANGUAGES);
  return found ?? "en";
}

/** A function that gives texts of a language, and English ones where it has none. */
export function translator(language) {
  const {texts} = LANGUAGES[language] ?? LANGUAGES.en;
  return (key, values = {}, otherwise = key) => {
    const text = texts[key] ?? en[key];
    if (text === undefined) return otherwise;
    return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
  };
}
