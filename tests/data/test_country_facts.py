"""Questions from CLDR: correct answers at correct offsets, and held-out places never seen in training."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from babel import Locale

from heedful.data.country_facts import FACT_KINDS, facts_of_places, generate_articles, write_cldr_questions
from heedful.data.drops import Drops
from heedful.data.squad import Question, read_squad


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_cldr_questions(tmp_path_factory.mktemp("questions"), 1, 2000)


@pytest.fixture(scope="module")
def questions(paths: dict[str, Path]) -> dict[str, list[Question]]:
    drops = Drops()
    found = {split: list(read_squad(path, drops)) for split, path in paths.items()}
    assert not drops.counts
    return found


def titles(path: Path) -> set[str]:
    return {place for article in json.loads(path.read_text())["data"] for place in article["title"].split("; ")}


def test_the_number_of_questions_is_as_requested(questions: dict[str, list[Question]]) -> None:
    assert {split: len(found) for split, found in questions.items()} == {"train": 2000, "valid": 500, "test": 500}
    ids = [question.id for found in questions.values() for question in found]
    assert len(set(ids)) == len(ids)
    assert sum(len(article["paragraphs"][0]["qas"]) for article in generate_articles("valid", 7, 1)) == 7


def test_every_answer_is_at_its_offset(paths: dict[str, Path]) -> None:
    for path in paths.values():  # not through read_squad, which corrects offsets
        for article in json.loads(path.read_text())["data"]:
            for paragraph in article["paragraphs"]:
                for entry in paragraph["qas"]:
                    for answer in entry["answers"]:
                        begin = answer["answer_start"]
                        assert paragraph["context"][begin : begin + len(answer["text"])] == answer["text"]


def test_held_out_places_never_occur_in_training(paths: dict[str, Path]) -> None:
    places = {split: titles(path) for split, path in paths.items()}
    assert min(map(len, places.values())) >= 20
    assert len(places["train"]) > 120
    for one, other in combinations(places, 2):
        assert places[one] & places[other] == set()
    for split, path in paths.items():
        # Only places of this split may follow words that only a place can follow.
        named = re.findall(r"(?:two-letter code of|currency of) (?:the )?(.+?)(?= is |\?)", path.read_text())
        assert len(named) > 50
        assert set(named) <= set(facts_of_places()[split])


def test_a_passage_states_more_facts_than_the_question_asks_for(questions: dict[str, list[Question]]) -> None:
    for split, found in questions.items():
        facts = facts_of_places()[split]
        for question in found:
            sentences = question.context.count(".")
            assert sentences > 1, question
            assert any(place in question.context for place in facts)


def test_answers_are_what_babel_says(questions: dict[str, list[Question]]) -> None:
    english, german = Locale("en"), Locale("de")
    codes = {name: code for code, name in english.territories.items()}
    checked: Counter[str] = Counter()
    for question in (question for found in questions.values() for question in found):
        text = question.answers[0][0]
        if match := re.fullmatch(r"What is (?:the )?(.+) called in German\?", question.question):
            assert german.territories[codes[match[1]]] == text
            checked["name"] += 1
        elif match := re.fullmatch(
            r"(?:What is the two-letter code of|How is) (?:the )?(.+?)(?: abbreviated)?\?", question.question
        ):
            assert codes[match[1]] == text
            checked["code"] += 1
        elif match := re.fullmatch(r"Which place is called (.+) in German\?", question.question):
            assert german.territories[codes[text]] == match[1]
            checked["place"] += 1
    assert min(checked["name"], checked["code"], checked["place"]) > 5


def test_well_known_facts_are_right() -> None:
    facts = {place: known for places in facts_of_places().values() for place, known in places.items()}
    assert len(facts) > 200
    assert facts["Japan"]["currency"] == "Japanese Yen"
    assert facts["Switzerland"]["official"] == "German, French and Italian"
    assert facts["Egypt"]["week"] == "Saturday"
    assert facts["Germany"]["name in Finnish"] == "Saksa"
    assert "name in Spanish" not in facts["Portugal"]  # the same as in English


def test_every_kind_and_every_wording_occurs(questions: dict[str, list[Question]]) -> None:
    asked = "\n".join(question.question for question in questions["train"])
    passages = "\n".join({question.context for question in questions["train"]})
    for kind in FACT_KINDS.values():
        for template in (*kind.ask_value, *kind.ask_place):
            assert re.search(r"^" + re.sub(r"\\{\w+\\}", ".+", re.escape(template)) + "$", asked, re.MULTILINE), template
        for template in kind.state:
            assert re.search(re.sub(r"\\{\w+\\}", ".+", re.escape(template)), passages), template


def test_the_same_seed_gives_the_same_files_and_another_seed_different_ones(tmp_path: Path, paths: dict[str, Path]) -> None:
    again, other = write_cldr_questions(tmp_path / "a", 1, 2000), write_cldr_questions(tmp_path / "b", 2, 2000)
    for split, path in paths.items():
        assert again[split].read_bytes() == path.read_bytes()
        assert other[split].read_bytes() != path.read_bytes()
