"""The languages of a pair are guessed from file endings, and what is no language is not taken for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heedful.data.languages import language_name, language_of, languages_of
from heedful.jobs.data_settings import PairSettings


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("train.en", "en"),
        ("data/europarl.de-en.de", "de"),
        ("train.pt_BR.gz", "pt-BR"),
        ("x.zh-Hans", "zh-Hans"),
        ("train.ko", "ko"),
        ("train.txt", ""),
        ("train.tok", ""),
        ("pairs.tsv", ""),
        ("train.src", ""),
        ("train", ""),
        ("", ""),
        ("en", ""),
    ],
)
def test_a_file_s_ending_is_its_language(path: str, code: str) -> None:
    assert language_of(path) == code


def test_what_is_set_goes_before_what_is_guessed() -> None:
    guessed = PairSettings(source="train.en", target="train.xyz")
    assert languages_of(guessed) == ("en", "")
    assert languages_of(replace(guessed, source_language="nds", target_language="fy")) == ("nds", "fy")


def test_names_are_english() -> None:
    assert [language_name(code) for code in ("ko", "pt-BR", "de-AT", "xx")] == [
        "Korean",
        "Brazilian Portuguese",
        "Austrian German",
        "xx",
    ]
