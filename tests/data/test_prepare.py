"""Preparing a corpus: only once, atomically, with held-out pairs that training never sees."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.data.parallel import Pair
from heedful.data.prepare_pairs import Prepared, load_prepared, prepare_pairs
from heedful.errors import HeedfulError, UsageError
from heedful.jobs.data_settings import PairSettings
from heedful.recipes.settings import TokenizerSettings
from heedful.text import Tokenizer

ARRAYS = ("source.ids.npy", "source.lengths.npy", "target.ids.npy", "target.lengths.npy")
NUMBERED = [(f"Satz {number}", f"sentence {number}") for number in range(200)]


class Notes:
    """A reporter that records its messages, and can raise an interruption at a given task."""

    def __init__(self, interrupt_at: str = "") -> None:
        self.said: list[str] = []
        self.interrupt_at = interrupt_at

    def say(self, text: str) -> None:
        self.said.append(text)

    def track(self, label: str, total: int | None) -> Callable[[int], None]:
        def tick(more: int) -> None:
            if label == self.interrupt_at:
                raise KeyboardInterrupt

        return tick


def write_pairs(path: Path, pairs: list[Pair]) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def make(folder: Path, corpus: list[Pair] | None = None, notes: Notes | None = None, seed: int = 1, **changes: Any) -> Prepared:
    """Prepare `folder`/data from `folder`/pairs.tsv with byte tokens, except for `changes`."""
    if corpus is not None:
        write_pairs(folder / "pairs.tsv", corpus)
    tokenizer = TokenizerSettings(**{"kind": "byte", **changes.pop("tokenizer", {})})
    data = PairSettings(**{"source": str(folder / "pairs.tsv"), **changes})
    prepare_pairs(data, tokenizer, seed, folder / "data", notes or Notes())
    return load_prepared(folder / "data")


def training_pairs(prepared: Prepared) -> list[Pair]:
    source, target = prepared.source_tokenizer, prepared.target_tokenizer
    return [
        (source.decode(prepared.train.source[i].tolist()), target.decode(prepared.train.target[i].tolist()))
        for i in range(len(prepared.train))
    ]


def stamps(folder: Path) -> list[int]:
    return [(folder / "data" / name).stat().st_mtime_ns for name in ARRAYS]


def test_training_and_held_out_pairs_are_the_whole_corpus(tmp_path: Path) -> None:
    notes = Notes()
    prepared = make(tmp_path, NUMBERED, notes, hold_out=15)
    assert Counter(training_pairs(prepared)) + Counter(prepared.valid) == Counter(NUMBERED)
    assert len(prepared.valid) == 15
    assert prepared.test == []
    assert notes.said == ["data: 185 pairs to train on, 15 held out for validation"]


def test_the_ids_are_memory_mapped(tmp_path: Path) -> None:
    prepared = make(tmp_path, NUMBERED)
    assert isinstance(prepared.train.source.ids, np.memmap)
    assert isinstance(prepared.train.target.ids, np.memmap)


def test_unchanged_inputs_are_not_tokenised_again(tmp_path: Path) -> None:
    first = make(tmp_path, NUMBERED)
    before, notes = stamps(tmp_path), Notes()
    second = make(tmp_path, None, notes)
    assert stamps(tmp_path) == before
    assert second.valid == first.valid
    assert notes.said == [f"data: {len(first.train)} pairs, as prepared before"]


def test_a_touched_but_identical_file_is_accepted(tmp_path: Path) -> None:
    make(tmp_path, NUMBERED)
    before = stamps(tmp_path)
    os.utime(tmp_path / "pairs.tsv", (1, 1))
    make(tmp_path)
    assert stamps(tmp_path) == before


@pytest.mark.parametrize("more", [("Satz 7", "another"), ("Satz neu", "sentence new")])
def test_changed_text_is_refused_by_name(more: Pair, tmp_path: Path) -> None:
    make(tmp_path, NUMBERED)
    before = stamps(tmp_path)
    with pytest.raises(HeedfulError, match=r"pairs\.tsv changed since this run began; give a new --run"):
        make(tmp_path, [*NUMBERED[:7], more, *NUMBERED[8:]])
    assert stamps(tmp_path) == before


def test_a_changed_tokenizer_file_is_refused_by_name(tmp_path: Path) -> None:
    Tokenizer.train("byte", [], 0).save(tmp_path / "mine.json")
    settings = {"file": str(tmp_path / "mine.json")}
    make(tmp_path, NUMBERED, tokenizer=settings)
    Tokenizer.train("byte", [], 0, ["<de>"]).save(tmp_path / "mine.json")
    with pytest.raises(HeedfulError, match=r"mine\.json changed since this run began"):
        make(tmp_path, tokenizer=settings)


def test_other_settings_prepare_the_data_again(tmp_path: Path) -> None:
    assert len(make(tmp_path, NUMBERED, hold_out=5).valid) == 5
    assert len(make(tmp_path, hold_out=6).valid) == 6
    assert make(tmp_path, hold_out=6, tokenizer={"kind": "char", "size": 100}).source_tokenizer.size < 100


def test_an_interrupted_preparation_is_redone(tmp_path: Path) -> None:
    (tmp_path / "data.tmp").mkdir()
    (tmp_path / "data.tmp" / "source.ids.npy").write_bytes(b"half")
    (tmp_path / "data.tmp" / "manifest.json").write_text("{")
    prepared = make(tmp_path, NUMBERED)
    assert Counter(training_pairs(prepared)) + Counter(prepared.valid) == Counter(NUMBERED)
    assert not (tmp_path / "data.tmp").exists()


@pytest.mark.parametrize("work", ["checking the text", "learning a vocabulary (char)", "tokenising"])
def test_an_interruption_leaves_nothing_that_looks_finished(work: str, tmp_path: Path) -> None:
    characters = {"kind": "char", "size": 100}
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, NUMBERED, Notes(interrupt_at=work), tokenizer=characters)
    assert not (tmp_path / "data").exists()
    after = make(tmp_path, tokenizer=characters)
    (tmp_path / "undisturbed").mkdir()
    other = make(tmp_path / "undisturbed", NUMBERED, tokenizer=characters)
    assert training_pairs(after) == training_pairs(other)
    assert after.valid == other.valid


@settings(deadline=None, max_examples=40)
@given(
    sources=st.lists(st.integers(0, 60), min_size=2, max_size=150).filter(lambda numbers: len(set(numbers)) > 1),
    wanted=st.integers(1, 30),
)
def test_a_held_out_source_is_never_trained_on(sources: list[int], wanted: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    pairs = [(f"Satz {number}", f"sentence {index % 3}") for index, number in enumerate(sources)]
    prepared = make(tmp_path_factory.mktemp("held"), pairs, hold_out=wanted)
    trained, held = training_pairs(prepared), prepared.valid
    assert trained
    assert held
    assert not {source for source, _ in trained} & {source for source, _ in held}
    assert set(trained) | set(held) == set(pairs)
    assert len(set(held)) == len(held)
    # At most a tenth and at most the requested number, but at least one source with all its translations.
    taken = len(pairs) - len(trained)
    assert taken <= max(1, min(wanted, len(pairs) // 10)) or len({source for source, _ in held}) == 1


@pytest.mark.parametrize(("count", "wanted", "held"), [(200, 7, 7), (200, 1, 1), (200, 1000, 20), (19, 5, 1), (2, 1000, 1)])
def test_the_requested_number_is_held_out_but_at_most_a_tenth(count: int, wanted: int, held: int, tmp_path: Path) -> None:
    assert len(make(tmp_path, NUMBERED[:count], hold_out=wanted).valid) == held


def test_a_corpus_of_a_few_repeated_sources_can_still_train(tmp_path: Path) -> None:
    prepared = make(tmp_path, NUMBERED[:10] * 10)
    assert len(prepared.train) == 90
    assert len(prepared.valid) == 1


def test_a_held_out_source_with_extra_spaces_is_not_trained_on(tmp_path: Path) -> None:
    pairs = [pair for source, target in NUMBERED for pair in ((source, target), (f" {source} ", target))]
    prepared = make(tmp_path, pairs, hold_out=20)
    assert not {source.strip() for source, _ in training_pairs(prepared)} & {source.strip() for source, _ in prepared.valid}


def test_which_pairs_are_held_out_depends_on_the_text_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = make(tmp_path / "a", NUMBERED, seed=1)
    other = make(tmp_path / "b", NUMBERED[::-1], seed=2)
    assert sorted(one.valid) == sorted(other.valid)


@pytest.mark.parametrize("pairs", [NUMBERED[:1], [("Satz", "one"), ("Satz", "two"), (" Satz", "three")]])
def test_one_source_is_too_few_to_hold_one_out(pairs: list[Pair], tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match=r"one distinct source is not enough .* give data\.valid_source"):
        make(tmp_path, pairs)
    valid = write_pairs(tmp_path / "valid.tsv", NUMBERED[5:6])
    prepared = make(tmp_path, valid_source=str(valid))
    assert training_pairs(prepared) == pairs
    assert prepared.valid == NUMBERED[5:6]


def test_nothing_usable_says_why(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("one column\n\tempty\n", encoding="utf-8")
    with pytest.raises(HeedfulError, match=r"no usable pair in .*pairs\.tsv: 2 dropped: .*columns.*line 1.*empty.*line 2"):
        make(tmp_path)
    valid = write_pairs(tmp_path / "valid.tsv", NUMBERED)
    with pytest.raises(HeedfulError, match=r"no usable pair in .*pairs\.tsv"):
        make(tmp_path, valid_source=str(valid))


def test_nothing_short_enough_says_why(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match="no pair is left to train on: 180 dropped: 180 longer than 3 tokens"):
        make(tmp_path, NUMBERED, max_length=3)


def test_validation_and_test_files_are_used_as_they_are(tmp_path: Path) -> None:
    valid = write_pairs(tmp_path / "valid.tsv", NUMBERED[:3])
    test = write_pairs(tmp_path / "test.tsv", NUMBERED[3:5])
    notes = Notes()
    prepared = make(tmp_path, NUMBERED, notes, valid_source=str(valid), test_source=str(test))
    assert (prepared.valid, prepared.test) == (NUMBERED[:3], NUMBERED[3:5])
    assert training_pairs(prepared) == NUMBERED
    assert "also stand in the validation or test text" in notes.said[0]
    assert notes.said[-1] == "data: 200 pairs to train on"


def test_a_validation_file_without_a_usable_pair_is_named(tmp_path: Path) -> None:
    valid = write_pairs(tmp_path / "valid.tsv", [("", "empty")])
    with pytest.raises(HeedfulError, match=r"no usable pair in .*valid\.tsv: 1 dropped"):
        make(tmp_path, NUMBERED, valid_source=str(valid))
    with pytest.raises(HeedfulError, match=r"there is no file .*absent\.tsv"):
        make(tmp_path, valid_source=str(tmp_path / "absent.tsv"))


def test_dropped_pairs_are_reported_and_recorded(tmp_path: Path) -> None:
    notes = Notes()
    make(tmp_path, [*NUMBERED, ("", "x"), ("y\x07", "z"), ("long" * 20, "w")], notes, max_length=40)
    assert notes.said[-1].startswith("data: 3 dropped: ")
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["dropped"] == {"empty": 1, "with control characters": 1, "longer than 40 tokens": 1}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_refused_because_text_is_read_more_than_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pairs.tsv")
    with pytest.raises(HeedfulError, match=r"pairs\.tsv is a pipe"):
        make(tmp_path)


def test_without_training_text_the_error_says_which_settings_to_give(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"data\.source=FILE"):
        make(tmp_path, source="")


def test_a_joint_vocabulary_is_one_tokenizer_for_both_sides(tmp_path: Path) -> None:
    prepared = make(tmp_path, NUMBERED, tokenizer={"kind": "char", "size": 100})
    assert prepared.source_tokenizer is prepared.target_tokenizer
    assert not (tmp_path / "data" / "target_tokenizer.json").exists()
    assert prepared.target_tokenizer.unk not in prepared.target_tokenizer.encode("Satz sentence")


def test_separate_vocabularies_cover_only_their_own_side(tmp_path: Path) -> None:
    prepared = make(tmp_path, NUMBERED, tokenizer={"kind": "char", "size": 100, "joint": False})
    source, target = prepared.source_tokenizer, prepared.target_tokenizer
    assert source.unk not in source.encode("Satz 0123456789")
    assert target.unk not in target.encode("sentence 0123456789")
    assert source.unk in source.encode("sentence")
    assert target.unk in target.encode("Satz")


def test_a_vocabulary_is_learned_without_the_held_out_pairs(tmp_path: Path) -> None:
    pairs = [(f"Satz {chr(0x4E00 + number)}", f"sentence {number}") for number in range(100)]
    prepared = make(tmp_path, pairs, tokenizer={"kind": "char", "size": 1000})
    tokenizer = prepared.source_tokenizer
    assert all(tokenizer.unk in tokenizer.encode(source) for source, _ in prepared.valid)
    assert tokenizer.unk not in prepared.train.source.ids


def test_a_ready_made_tokenizer_is_used_for_both_sides(tmp_path: Path) -> None:
    ready = Tokenizer.train("bpe", ["Satz sentence"] * 5, 270)
    ready.save(tmp_path / "mine.json")
    prepared = make(tmp_path, NUMBERED, tokenizer={"file": str(tmp_path / "mine.json"), "joint": False})
    assert prepared.source_tokenizer is prepared.target_tokenizer
    assert prepared.source_tokenizer.encode("Satz 3") == ready.encode("Satz 3")


def test_generated_dates_come_with_validation_test_and_tags(tmp_path: Path) -> None:
    characters = {"kind": "char", "size": 2000, "joint": False}
    prepared = make(tmp_path, source="", generate="dates", pairs=300, tokenizer=characters)
    assert (len(prepared.train), len(prepared.valid), len(prepared.test)) == (300, 1000, 2000)
    assert len(prepared.source_tokenizer.encode("<de>")) == 1
    assert not {target for _, target in training_pairs(prepared)} & {target for _, target in [*prepared.valid, *prepared.test]}
    before = stamps(tmp_path)
    make(tmp_path, source="", generate="dates", pairs=300, tokenizer=characters)
    assert stamps(tmp_path) == before
