"""The README.md of a model directory: how it was trained, what it scored, how to use it."""

from __future__ import annotations

from typing import Any

from heedful.models.seq2seq import Seq2Seq
from heedful.recipes import Recipe
from heedful.training.checkpoint import Progress


def model_card(
    recipe: Recipe, model: Seq2Seq, progress: Progress, scores: dict[str, dict[str, Any]], which: str, processes: int
) -> str:
    """Markdown for people."""
    parameters = sum(p.numel() for p in model.parameters())
    lines = [
        f"# {recipe.name} ({which})",
        "",
        f"{recipe.about or 'A translation model.'}" + " Made with heedful.",
        "",
        "```",
        'heedful translate THIS_DIRECTORY "some text"',
        "```",
        "",
        "| | |",
        "|---|---|",
        f"| task | {recipe.task} |",
        f"| parameters | {parameters:,} |",
        f"| preset | {recipe.model['preset']} |",
        f"| steps | {progress.step:,} of {recipe.training.steps:,} |",
        f"| target tokens trained on | {progress.tokens:,} |",
        f"| training time | {progress.seconds / 60:.1f} minutes, {processes} process(es) |",
        f"| seed | {recipe.training.seed} |",
    ]
    if recipe.data.source:
        lines.append(f"| trained on | {recipe.data.source} {recipe.data.target} |")
    lines += ["", "| held-out | BLEU | chrF | exact match | perplexity |", "|---|---|---|---|---|"]
    for split, found in scores.items():
        lines.append(
            f"| {split} | {found['bleu']:.2f} | {found['chrf']:.2f} | {found['exact']:.2f} % | {found['perplexity']:.3f} |"
        )
    first = next(iter(scores.values()))
    lines += ["", f"BLEU: `{first['bleu_signature']}`, chrF: `{first['chrf_signature']}` (sacreBLEU)."]
    return "\n".join(lines) + "\n"
