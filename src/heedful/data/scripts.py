"""Guesses the script of a text by its letters, and its language by frequent function words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

SCRIPTS = {
    "Latin": "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff", "Greek": "\u0370-\u03ff\u1f00-\u1fff",
    "Cyrillic": "\u0400-\u052f", "Armenian": "\u0530-\u058f", "Hebrew": "\u0590-\u05ff", "Arabic": "\u0600-\u06ff\u0750-\u077f",
    "Devanagari": "\u0900-\u097f", "Bengali": "\u0980-\u09ff", "Tamil": "\u0b80-\u0bff", "Telugu": "\u0c00-\u0c7f",
    "Thai": "\u0e00-\u0e7f", "Georgian": "\u10a0-\u10ff", "Ethiopic": "\u1200-\u137f", "Khmer": "\u1780-\u17ff",
    "Korean": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af", "Japanese": "\u3040-\u30ff", "Chinese": "\u3400-\u9fff\uf900-\ufaff",
}  # fmt: skip
LETTERS = {name: re.compile(f"[{letters}]+") for name, letters in SCRIPTS.items()}
ALSO_USED = {"Japanese": ("Chinese",)}  # scripts that also occur in texts of other scripts
LONG_NAME = 30  # Latin letters that names, commands and symbols may have in a line of another script
MOSTLY = 0.5  # share of a side's lines that must have letters of a script for it to be the side's script
WORD = re.compile(r"[^\W\d_]{2,}")
ENOUGH_WORDS = 3  # function words of a language, with none of another, that identify a line

# The most frequent function words, including those that several languages share.
SMALL_WORDS = {
    "en": "in on his her an as at or if when will can no use only all the of and to is that it with for was are this you be "
    "have which by not they from",
    "de": "im zum zur des als an es bei aus dass nur er sie kein keine wenn diese dieser dieses durch sind kann mann frau "
    "der die und das ist nicht mit sich auf für ein eine dem den werden wird auch einer oder zu",
    "fr": "la de en un au ou est qu il elle si se ses par plus tout homme femme le les et des une dans pour pas qui sur "
    "avec vous cette ce sont être aux du",
    "es": "de la en un se no al es si lo son le el los las que una con por para del está como más pero su sus este esta fue",
    "it": "la un in da su se al lo il di che non una per sono della del con gli alla nel anche più questo come dei delle",
    "pt": "de no na se em ou as os uma não com para do da dos das ao um por como mais está ser foi você",
    "nl": "in is de die dit als er aan tot of om het een van en niet zijn op te dat voor met ook deze worden wordt bij naar",
    "sv": "en som vara de kan ska inte du ny och att det är för av på ett till har från eller om vid var denna",
    "da": "et de om kan skal ikke du og af det at er på til der med den en som har fra eller ved blev være",
    "pl": "ta ten za od by pod przy nie jest się na że do to jak być są dla oraz lub przez tego po ale które",
    "cs": "ve za od do si to je se na že být jsou pro nebo jako ale který která není při pokud tento byl",
    "hu": "ez azt be el ki fel az és hogy nem egy van meg csak vagy mint kell volt lehet ha amely után",
    "fi": "se en on ovat tämän jos vain ja ei että oli mutta tai kun myös hän joka niin voi ole tämä kuin",
    "tr": "şu mi en iki her ya ve bir bu için ile olarak değil daha olan çok gibi kadar var veya sonra ancak bunu",
    "ro": "un se nu la al cu este și în de pentru din pe care sau mai sunt fi acest această fost",
    "ru": "же но до так все этот для файл не на что это как он по или из от был если его она можно",
    "uk": "до це але так не на що як для або та від був якщо його вона всі можна",
    "id": "ada telah bisa juga jika tersebut yang dan di ini untuk dengan tidak dari pada itu dalam adalah akan oleh atau "
    "dapat ke",
}  # fmt: skip
LANGUAGES_OF: dict[str, set[str]] = {}
for language, words in SMALL_WORDS.items():
    for small in words.split():
        LANGUAGES_OF.setdefault(small, set()).add(language)


def main_script(lines: Iterable[str]) -> str:
    """The script of most of these lines; empty if there is none."""
    counts, total = Counter[str](), 0
    for line in lines:
        found = {name for name, letters in LETTERS.items() if letters.search(line)}
        total += bool(found)
        counts.update(found)
    # Latin names occur in texts of every script, and Chinese characters in Japanese: check Latin and Chinese last.
    names = [*(name for name in SCRIPTS if name not in ("Latin", "Chinese")), "Chinese", "Latin"]
    return next((name for name in names if counts[name] > MOSTLY * total), "")


def is_of(script: str, text: str) -> bool:
    """Whether a text is in this script: mostly, for Latin; at all, for others, because their texts contain Latin names."""
    if text.isascii():
        return script == "Latin" or sum(map(str.isalpha, text)) < LONG_NAME
    if script != "Latin" and any(LETTERS[name].search(text) for name in (script, *ALSO_USED.get(script, ()))):
        return True
    letters, latin = sum(map(str.isalpha, text)), sum(map(len, LETTERS["Latin"].findall(text)))
    return 2 * latin >= letters if script == "Latin" else latin == letters < LONG_NAME


def small_words(text: str) -> Counter[str]:
    """Language → how many of its function words a text has."""
    found: Counter[str] = Counter()
    for word in WORD.findall(text.casefold()):
        if (known := LANGUAGES_OF.get(word)) is not None:
            found.update(known)
    return found


def language_by_words(text: str) -> str:
    """The code of the language whose function words a line has; empty if it is not clear."""
    (best, count), (_, next_best) = [*small_words(text).most_common(2), ("", 0), ("", 0)][:2]
    return best if count >= ENOUGH_WORDS and next_best <= count // 2 else ""


def is_foreign(text: str, language: str) -> bool:
    """Whether a line has function words of another language, and none of this one."""
    if text.count(" ") < ENOUGH_WORDS - 1:
        return False
    found = small_words(text)
    return not found[language] and bool(found) and max(found.values()) >= ENOUGH_WORDS
