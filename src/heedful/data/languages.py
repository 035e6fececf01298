"""Codes of languages: guessed from file endings, and their names in English."""

from __future__ import annotations

from pathlib import Path

from babel import Locale

from heedful.jobs.data_settings import PairSettings

NO_LANGUAGES = {"tok", "new", "sh", "und", "mul", "zxx"}  # file endings that are also language codes but rarely mean one
PACKED = {".gz", ".bz2", ".xz"}


def language_of(path: str) -> str:
    """The code that a file's name ends in (`train.en`, `corpus.pt-BR.gz`), or "" if it ends in none.

    >>> language_of("data/train.de"), language_of("train.en.gz"), language_of("pairs.tsv")
    ('de', 'en', '')
    """
    name = Path(path)
    if name.suffix in PACKED:
        name = name.with_suffix("")
    code = name.suffix[1:].replace("_", "-")
    language, _, region = code.partition("-")
    known = language.lower() in Locale("en").languages and language not in NO_LANGUAGES
    return code if known and len(region) <= 4 and region.isalnum() | (not region) else ""


def languages_of(settings: PairSettings) -> tuple[str, str]:
    """The source and target languages of pairs: as set, or guessed from the endings of the file names."""
    source = settings.source_language or language_of(settings.source)
    target = settings.target_language or language_of(settings.target)
    return (target, source) if settings.reverse else (source, target)


def language_name(code: str) -> str:
    """The English name of a language.

    >>> language_name("de"), language_name("pt-BR")
    ('German', 'Brazilian Portuguese')
    """
    names = Locale("en").languages
    found = names.get(code.replace("-", "_")) or names.get(code.partition("-")[0])
    return str(found) if found else code
