"""The end of a run: sets the final weights, scores both models on all held-out data, writes cards, results and report."""

from __future__ import annotations

import filecmp
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from heedful.evaluation.score_names import RunResults, Scores, ranking
from heedful.explain.report import write_report
from heedful.pipelines.load import load_pipeline
from heedful.recipes import Recipe
from heedful.runtime.files import write_json
from heedful.runtime.processes import Processes
from heedful.runtime.screen import Screen
from heedful.tasks.task import AnyTask
from heedful.training.card import model_card
from heedful.training.checkpoint import Progress, prune_checkpoints
from heedful.training.trainer import Trainer


def keep_best(recipe: Recipe, run: Path, trainer: Trainer, task: AnyTask, processes: Processes) -> Callable[[Scores], None]:
    """The callback for a new best validation: it saves the model to `best/`."""

    def keep(scores: Scores) -> None:
        model, progress = trainer.eval_model, trainer.progress
        card = model_card(recipe, model, progress, {"validation": scores}, "best", processes.world, task.unit)
        task.pipeline(model).save(run / "best", card)

    return keep


def finish_run(recipe: Recipe, run: Path, trainer: Trainer, task: AnyTask, processes: Processes, screen: Screen) -> RunResults:
    """Set the final weights, score both models on all held-out data, write cards, results and report."""
    final = trainer.set_final_weights()
    screen.say(f"final model: {final}")
    if processes.first:
        task.pipeline(trainer.eval_model).save(run / "final", "")
    processes.gather(None)  # wait until both models are written
    # With a falling learning rate the last weights are often the best ones: equal models are scored once.
    same = filecmp.cmp(run / "final" / "model.safetensors", run / "best" / "model.safetensors", shallow=False)
    same = processes.gather(same)[0]
    results: RunResults = {
        "steps": trainer.progress.step,
        "seconds": round(trainer.progress.seconds, 1),
        "scored": describe_scoring(task, recipe),
        "final": {},
        "best": {},
        "samples": [],
    }
    tick = screen.track("scoring the best and the final model", (1 if same else 2) * (2 if task.test else 1))
    found: dict[str, dict[str, Scores]] = {}
    for name in ("best",) if same else ("best", "final"):
        model = load_pipeline(run / name, trainer.device).model
        found[name] = {"validation": task.validate(model, processes, everything=True)}
        tick(1)
        if task.test:
            found[name]["test"] = task.score(model, task.test, processes)
            tick(1)
    progress, metric = trainer.progress, recipe.training.metric
    at_best = replace(progress, step=progress.best_step)
    words: dict[Literal["final", "best"], tuple[Progress, str]] = {
        "final": (progress, f"final, {final}"),
        "best": (at_best, f"best by {metric}"),
    }
    # The final model is never worse than the best one.
    if "final" in found and ranking(found["final"]["validation"], metric) < ranking(found["best"]["validation"], metric):
        final = f"the best model, of step {progress.best_step:,}: later ones score lower"
        words["final"] = at_best, f"final, {final}"
        del found["final"]
        screen.say(f"final model: {final}")
    for name, (at_step, which) in words.items():
        scores = found.get(name, found["best"])
        if processes.first:
            pipeline = load_pipeline(run / (name if name in found else "best"), trainer.device)
            pipeline.save(run / name, model_card(recipe, pipeline.model, at_step, scores, which, processes.world, task.unit))
        results[name] |= {split: {k: v for k, v in part.items() if k != "samples"} for split, part in scores.items()}
        results["samples"] = scores.get("test", scores["validation"])["samples"]
    if processes.first:
        if not trainer.finished:
            results["unfinished"] = f"stopped at step {trainer.progress.step:,} of {recipe.training.steps:,}"
        write_report(run, results, load_pipeline(run / "best"), (task.test or task.valid)[:8], task.unit)
        write_json(run / "results.json", results)
        if trainer.finished:  # nothing is left to resume or average
            prune_checkpoints(trainer.folder, {trainer.progress.step})
    return results


def describe_scoring(task: AnyTask, recipe: Recipe) -> str:
    """How final scoring differs from validation during training; empty if it does not."""
    quick, whole = task.describe_search(quick=True), task.describe_search()
    used = min(recipe.training.validate_pairs, len(task.valid))
    differences = []
    if quick != whole:
        differences.append(f"with {whole}; validation during training was {quick}")
    if used < len(task.valid):
        differences.append(f"on all {len(task.valid):,} validation examples; validation during training used {used:,}")
    return f"scored {' and '.join(differences)}" if differences else ""
