"""The README.md of a model directory: how it was trained, what it scored, how to use it."""

from __future__ import annotations

import re

from torch import nn

from heedful.data.languages import language_name, languages_of
from heedful.evaluation.score_names import Scores, shown_scores
from heedful.jobs.data_settings import PairSettings
from heedful.jobs.registry import JOBS
from heedful.recipes import Recipe
from heedful.recipes.open_settings import origin_of
from heedful.training.checkpoint import Progress

# The part of a recipe's description that says where its data comes from.
ABOUT_DATA = re.compile(r" \(data\.[^)]*\)|;.*|, for .*", re.DOTALL)


def _what_it_is(recipe: Recipe) -> str:
    """The recipe's description as a sentence, without the parts that only concern people who train it."""
    about = ABOUT_DATA.sub("", recipe.about).rstrip(". ") or "a model"
    return f"{about[0].upper()}{about[1:]}."


def _helpers(data: PairSettings) -> dict[str, str]:
    """The other models and the plain text that a run used, for the card's table."""
    found = {
        "plain text of the target": f"{data.monolingual_target}, back-translated by the run's `reverse/`",
        "plain text of the source": f"{data.monolingual_source}, translated by the run's `first/`",
        "other direction": "the run's `reverse/`",
    }
    there = (data.monolingual_target, data.monolingual_source, data.both)
    return {name: value for (name, value), given in zip(found.items(), there, strict=True) if given}


def model_card(
    recipe: Recipe,
    model: nn.Module,
    progress: Progress,
    scores: dict[str, Scores],
    which: str,
    processes: int,
    unit: str,
) -> str:
    """Markdown for people."""
    parameters = sum(p.numel() for p in model.parameters())
    lines = [
        f"# {recipe.name} ({which})",
        "",
        f"{_what_it_is(recipe)} Made with heedful.",
        "",
        "```",
        f"heedful {JOBS[recipe.task].example.replace('DIRECTORY', 'THIS_DIRECTORY')}",
        "```",
        "",
        "| | |",
        "|---|---|",
        f"| task | {recipe.task} |",
        f"| parameters | {parameters:,} |",
        f"| began as | {origin_of(recipe)} |",
        f"| steps | {progress.step:,} of {recipe.training.steps:,} |",
        f"| {unit} trained on | {progress.tokens:,} |",
        f"| training time | {progress.seconds / 60:.1f} minutes, {processes} process(es) |",
        f"| seed | {recipe.training.seed} |",
    ]
    files = [recipe.flat().get(f"data.{key}") for key in ("source", "target", "train", "generate")]
    lines.append(f"| trained on | {' '.join(name for name in files if name)} |")
    if isinstance(recipe.data, PairSettings) and any(languages := languages_of(recipe.data)):
        lines.append(f"| languages | {' → '.join(language_name(code) or 'unknown' for code in languages)} |")
    if isinstance(recipe.data, PairSettings):
        lines += [f"| {name} | {value} |" for name, value in _helpers(recipe.data).items()]
    names = shown_scores(next(iter(scores.values())))
    lines += ["", f"| held-out | {' | '.join(names)} |", f"|{'---|' * (len(names) + 1)}"]
    for split, found in scores.items():
        lines.append(f"| {split} | {' | '.join(shown_scores(found).values())} |")
    first = next(iter(scores.values()))
    if "bleu_signature" in first:
        lines += ["", f"BLEU: `{first['bleu_signature']}`, chrF: `{first['chrf_signature']}` (sacreBLEU)."]
    return "\n".join(lines) + "\n"
