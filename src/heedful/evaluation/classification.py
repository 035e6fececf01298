"""Accuracy and F1 of predicted classes: one per text or image, one per word, or a ranking. All in per cent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from heedful.errors import HeedfulError


def check_counts(predicted: Sequence[object], right: Sequence[object]) -> None:
    """Raise an error unless there is something to score and one prediction per reference."""
    if len(predicted) != len(right):
        raise HeedfulError(f"there are {len(predicted):,} predictions but {len(right):,} references")
    if not right:
        raise HeedfulError("there is nothing to score")


def classification_scores(predicted: Sequence[str], right: Sequence[str]) -> dict[str, float]:
    """`accuracy`, and `macro_f1`: the unweighted mean F1 of all classes that occur among predictions or references."""
    check_counts(predicted, right)
    hits = Counter(label for guess, label in zip(predicted, right, strict=True) if guess == label)
    guesses, labels = Counter(predicted), Counter(right)
    classes = guesses.keys() | labels.keys()
    # F1 = 2 PR / (P + R) with P = hits / guesses and R = hits / labels.
    f1 = [2 * hits[name] / (guesses[name] + labels[name]) for name in classes]
    return {"accuracy": 100.0 * hits.total() / len(right), "macro_f1": 100.0 * sum(f1) / len(f1)}


def tag_scores(predicted: Sequence[Sequence[str]], right: Sequence[Sequence[str]]) -> dict[str, float]:
    """`f1`, `precision` and `recall` of whole spans, as conlleval and seqeval count them, and `accuracy` of the tags.

    A span is correct if its words and its type are. Tags are IOB2, IOB1 or IOBES; an I- that continues no span begins one.
    """
    check_counts(predicted, right)
    for number, (guess, tags) in enumerate(zip(predicted, right, strict=True), 1):
        if len(guess) != len(tags):
            raise HeedfulError(f"sentence {number:,} has {len(tags):,} tags but {len(guess):,} predicted ones")
    guessed = {(number, *span) for number, tags in enumerate(predicted) for span in find_spans(tags)}
    real = {(number, *span) for number, tags in enumerate(right) for span in find_spans(tags)}
    same = sum(a == b for guess, tags in zip(predicted, right, strict=True) for a, b in zip(guess, tags, strict=True))
    hits = len(guessed & real)
    return {
        "accuracy": 100.0 * same / max(sum(map(len, right)), 1),
        "f1": 100.0 * 2 * hits / max(len(guessed) + len(real), 1),
        "precision": 100.0 * hits / max(len(guessed), 1),
        "recall": 100.0 * hits / max(len(real), 1),
    }


def find_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """(type, begin, end) of every span, `end` exclusive: B-DAY O B-YEAR I-YEAR → (DAY, 0, 1), (YEAR, 2, 4)."""
    spans: list[tuple[str, int, int]] = []
    before = ("O", "")
    for index, tag in enumerate(tags):
        prefix, dash, name = tag.partition("-")
        part = (prefix, name) if dash else ("O" if tag == "O" else "B", tag)  # a plain tag is a span of one word
        if part[0] in ("I", "E") and before[0] in ("B", "I") and part[1] == before[1]:
            spans[-1] = (spans[-1][0], spans[-1][1], index + 1)
        elif part[0] != "O":
            spans.append((part[1], index, index + 1))
        before = part
    return spans


def top_scores(ranked: Sequence[Sequence[str]], right: Sequence[str]) -> dict[str, float]:
    """`accuracy` of the first label of each ranking, and `top5`: how often the correct label is among the first five."""
    check_counts(ranked, right)
    first, five = (sum(label in best[:n] for best, label in zip(ranked, right, strict=True)) for n in (1, 5))
    return {"accuracy": 100.0 * first / len(right), "top5": 100.0 * five / len(right)}
