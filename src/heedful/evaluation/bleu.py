"""BLEU and chrF by sacreBLEU with their signatures, the length ratio, and exact match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from heedful.errors import HeedfulError, UsageError, did_you_mean
from heedful.evaluation.score_names import Scores

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF


class BleuOptions(TypedDict, total=False):
    """Options of sacreBLEU that differ from its defaults."""

    tokenize: str
    lowercase: bool


def sacrebleu_metrics(tokenize: str = "13a", lowercase: bool = False) -> tuple[BLEU, CHRF]:
    """sacreBLEU's BLEU and chrF; an error that says why if this tokenizer cannot be used."""
    from sacrebleu.metrics import BLEU, CHRF

    try:
        # Without `force`, sacreBLEU warns about text that looks tokenised, which is the user's choice here.
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=True), CHRF(lowercase=lowercase)
    except KeyError as error:
        raise UsageError(f"sacreBLEU has no tokenizer '{tokenize}'{did_you_mean(tokenize, BLEU.TOKENIZERS)}") from error
    except (ImportError, RuntimeError) as error:  # some need extra packages; sacreBLEU's message says which
        raise HeedfulError(f"sacreBLEU's tokenizer '{tokenize}' cannot be used: {' '.join(str(error).split())}") from error


def translation_scores(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a", lowercase: bool = False
) -> Scores:
    """`bleu`, `chrf` and `exact`, each from 0 to 100, the signatures of the first two, and `length_ratio`.

    That is the length of all outputs divided by that of all references, in BLEU's tokens; below 1, the brevity penalty
    lowers BLEU.
    """
    if len(hypotheses) != len(references):
        raise HeedfulError(f"there are {len(hypotheses):,} translations but {len(references):,} references")
    if not hypotheses:
        raise HeedfulError("there is nothing to score")
    bleu, chrf = sacrebleu_metrics(tokenize, lowercase)
    same = sum(a.strip() == b.strip() for a, b in zip(hypotheses, references, strict=True))
    found = bleu.corpus_score(list(hypotheses), [list(references)])
    return {
        "bleu": found.score,
        "chrf": chrf.corpus_score(list(hypotheses), [list(references)]).score,
        "length_ratio": found.ratio,
        "exact": 100.0 * same / len(references),
        "bleu_signature": str(bleu.get_signature()),
        "chrf_signature": str(chrf.get_signature()),
    }
