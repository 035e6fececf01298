"""The default corpus for question answering: passages of CLDR's facts about places (through Babel), as SQuAD v1.1 JSON.

A passage states several facts about a place, in varied wordings, and each question asks for either the place or the value
of one fact. Places are assigned to splits by a hash of their code. The places of the held-out questions, their currencies
and their names in other languages never occur in training, so the model has to find them in the passage.
"""

from __future__ import annotations

import datetime
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import Formatter

from heedful.data.splits import pick_split, write_splits
from heedful.data.squad import SquadArticle, SquadQuestion

TRAINING_QUESTIONS = 40_000
HELD_OUT_QUESTIONS = 500
QUESTIONS_PER_PASSAGE = 5
PLACE_SPLIT_PERCENTAGES = {"test": 12, "valid": 12, "train": 76}
NAMED_IN = "cs de es fi fr hu it nl pl pt sv tr".split()
AS_OF = datetime.date(2025, 1, 1)  # currencies in use on this day; fixed so that the corpus never changes
WITH_ARTICLE = re.compile(r"United |Isle of|.*(Islands|Republic|Territory|Territories|Netherlands|Philippines|Bahamas|Gambia)$")


@dataclass(frozen=True)
class FactKind:
    """A kind of fact: templates that state it, that ask for its value, and that ask for its place."""

    state: tuple[str, ...]
    ask_value: tuple[str, ...]
    ask_place: tuple[str, ...]


FACT_KINDS = {
    "currency": FactKind(
        ("The currency of {place} is the {value}.", "In {place}, people pay with the {value}.", "{Place} uses the {value}."),
        ("What is the currency of {place}?", "What do people pay with in {place}?", "Which currency does {place} use?"),
        ("Where do people pay with the {value}?", "Which place uses the {value}?"),
    ),
    "official": FactKind(
        (
            "{Place} has made {value} official.",
            "Official texts in {place} are in {value}.",
            "In {place}, officials write {value}.",
        ),
        ("Which language or languages are official in {place}?", "What do officials in {place} write?"),
        ("Where is {value} official?", "In which place do officials write {value}?"),
    ),
    "spoken": FactKind(
        ("The language heard most often in {place} is {value}.", "In {place}, more people speak {value} than anything else."),
        ("Which language is heard most often in {place}?", "What do more people in {place} speak than anything else?"),
        ("Where is {value} heard most often?",),
    ),
    "week": FactKind(
        ("In {place}, the week begins on {value}.", "Calendars in {place} start with {value}."),
        ("On which day does the week begin in {place}?", "What do calendars in {place} start with?"),
        ("Where does the week begin on {value}?", "Where do calendars start with {value}?"),
    ),
    "code": FactKind(
        ("The two-letter code of {place} is {value}.", "{Place} is abbreviated as {value}."),
        ("What is the two-letter code of {place}?", "How is {place} abbreviated?"),
        ("Which place has the two-letter code {value}?", "What does {value} stand for?"),
    ),
    "name": FactKind(
        ("In {language}, {place} is called {value}.", "The {language} name of {place} is {value}."),
        ("What is {place} called in {language}?", "What is the {language} name of {place}?"),
        ("Which place is called {value} in {language}?", "What does {value} mean in {language}?"),
    ),
}


@dataclass
class Passage:
    """A passage under construction, with the positions of everything a question may ask for."""

    text: str = ""
    places: dict[str, int] = field(default_factory=dict)  # place → character of its first mention
    values: dict[tuple[str, str], int] = field(default_factory=dict)  # (place, fact) → character at which its value begins

    def add(self, template: str, place: str, fact: str, value: str) -> None:
        """Append one sentence."""
        self.text += " " if self.text else ""
        for before, name, _, _ in Formatter().parse(template):
            self.text += before
            if name in ("place", "Place"):
                self.text += _article(place, capital=name == "Place")
                self.places.setdefault(place, len(self.text))
                self.text += place
            elif name == "value":
                self.values[place, fact] = len(self.text)
                self.text += value


def _article(place: str, capital: bool = False) -> str:
    return ("The " if capital else "the ") if WITH_ARTICLE.match(place) else ""


@cache
def facts_of_places() -> dict[str, dict[str, dict[str, str]]]:
    """Split → place → fact → value: {"Finland": {"currency": "Euro", "name in German": "Finnland", …}}."""
    from babel import Locale, UnknownLocaleError
    from babel.languages import get_official_languages, get_territory_language_info
    from babel.numbers import get_territory_currencies

    english = Locale("en")
    namers = {english.languages[language]: Locale(language) for language in NAMED_IN}
    splits: dict[str, dict[str, dict[str, str]]] = {split: {} for split in PLACE_SPLIT_PERCENTAGES}
    for code, place in sorted(english.territories.items()):
        currencies = get_territory_currencies(code, start_date=AS_OF)
        # A language written in two scripts, such as bs and bs_Cyrl, is named once; a few have no English name.
        official = list(dict.fromkeys(english.languages.get(name.split("_")[0], "") for name in get_official_languages(code)))
        if not code.isalpha() or len(currencies) != 1 or not official or "" in official:
            continue
        try:
            locale = Locale.parse(f"und_{code}", resolve_likely_subtags=True)
        except UnknownLocaleError:
            continue
        spoken = next(iter(get_territory_language_info(code))).split("_")[0]
        facts = {
            "currency": english.currencies[currencies[0]],
            "official": " and ".join(filter(None, [", ".join(official[:-1]), official[-1]])),
            "spoken": english.languages.get(spoken, ""),
            "week": english.days["stand-alone"]["wide"][locale.first_week_day],
            "code": code,
        }
        names = {f"name in {language}": other.territories.get(code, "") for language, other in namers.items()}
        facts |= {fact: name for fact, name in names.items() if name != place}
        split = pick_split(code, PLACE_SPLIT_PERCENTAGES)
        splits[split][place] = {fact: value for fact, value in facts.items() if value}
    return splits


def _write_passage(place: str, facts: dict[str, str], rng: random.Random) -> Passage:
    """A passage that states some facts about a place."""
    passage = Passage()
    for fact, value in facts.items():
        kind, language = _kind_of(fact)
        passage.add(rng.choice(kind.state).replace("{language}", language), place, fact, value)
    return passage


def _kind_of(fact: str) -> tuple[FactKind, str]:
    """The kind of a fact, and the language in a fact such as `name in German`."""
    kind, _, language = fact.partition(" in ")
    return FACT_KINDS[kind], language


def _questions(passage: Passage, place: str, facts: dict[str, str], rng: random.Random) -> Iterator[tuple[str, str, int]]:
    """Every question that the passage answers with its answer, text and begin, in random order."""
    for fact in rng.sample(list(facts), len(facts)):
        kind, language = _kind_of(fact)
        value, backwards = facts[fact], rng.random() < 0.3
        template = rng.choice(kind.ask_place if backwards else kind.ask_value)
        question = template.format(place=_article(place) + place, value=value, language=language)
        text, begin = (place, passage.places[place]) if backwards else (value, passage.values[place, fact])
        yield question, text, begin


def generate_articles(split: str, count: int, seed: int) -> Iterator[SquadArticle]:
    """Articles for SQuAD's "data", one passage each, with `count` questions in total."""
    rng = random.Random(f"cldr questions {split} {seed}")
    places = facts_of_places()[split]
    languages = sorted({fact for facts in places.values() for fact in facts if fact.startswith("name in")})
    made = 0
    while made < count:
        place = rng.choice(sorted(places))
        stated = rng.sample(["currency", "official", "spoken", "week", "code", *rng.sample(languages, 3)], 5)
        facts = {fact: places[place][fact] for fact in stated if fact in places[place]}
        if len(facts) < 3:  # CLDR knows too little about a few islands
            continue
        passage = _write_passage(place, facts, rng)
        entries = list(_questions(passage, place, facts, rng))[: min(QUESTIONS_PER_PASSAGE, count - made)]
        questions: list[SquadQuestion] = [
            {"id": f"{split}-{made + number}", "question": question, "answers": [{"text": text, "answer_start": begin}]}
            for number, (question, text, begin) in enumerate(entries)
        ]
        made += len(questions)
        if questions:
            yield {"title": place, "paragraphs": [{"context": passage.text, "qas": questions}]}


def write_cldr_questions(folder: Path, seed: int, count: int | None = None) -> dict[str, Path]:
    """SQuAD v1.1 files: `count` training questions (default 40,000), 500 validation and 500 test questions."""
    training = TRAINING_QUESTIONS if count is None else count
    texts = {}
    for split, number in {"train": training, "valid": HELD_OUT_QUESTIONS, "test": HELD_OUT_QUESTIONS}.items():
        content = {"version": "1.1", "data": list(generate_articles(split, number, seed))}
        texts[split] = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    return write_splits(folder, "cldr-questions", "json", texts)
