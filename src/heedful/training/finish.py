"""The end of a run: sets the final weights, scores both models on all held-out data, writes cards, results and report."""

from __future__ import annotations

import filecmp
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from heedful.evaluation.score_names import RunResults, Scores, ranking
from heedful.explain.report import write_report
from heedful.pipelines.load import load_pipeline
from heedful.pipelines.model_directory import WEIGHTS
from heedful.recipes import Recipe
from heedful.runtime.files import write_json
from heedful.runtime.processes import Processes
from heedful.runtime.screen import Screen
from heedful.tasks.task import AnyTask
from heedful.training.card import model_card
from heedful.training.checkpoint import Progress, prune_checkpoints
from heedful.training.trainer import Trainer

Name: TypeAlias = Literal["best", "final"]  # of the models of a run


class Saved(NamedTuple):
    """A model of a run, for its card: the progress when its weights were reached, and what it is."""

    name: Name
    progress: Progress
    what: str


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
    scores = score_models(run, trainer, task, processes, screen)

    progress, metric = trainer.progress, recipe.training.metric
    at_best = replace(progress, step=progress.best_step)
    if "final" in scores and ranking(scores["final"]["validation"], metric) < ranking(scores["best"]["validation"], metric):
        final = f"the best model, of step {progress.best_step:,}: later ones score lower"
        screen.say(f"final model: {final}")
        del scores["final"]  # the final model is never worse than the best one
        last = Saved("final", at_best, f"final, {final}")
    else:
        last = Saved("final", progress, f"final, {final}")

    results: RunResults = {
        "steps": progress.step,
        "seconds": round(progress.seconds, 1),
        "scored": describe_scoring(task, recipe),
        "final": {},
        "best": {},
        "samples": [],
    }
    for model in (last, Saved("best", at_best, f"best by {metric}")):
        origin: Name = model.name if model.name in scores else "best"  # the final model may be the best one
        if processes.first:
            pipeline = load_pipeline(run / origin, trainer.device)
            card = model_card(recipe, pipeline.model, model.progress, scores[origin], model.what, processes.world, task.unit)
            pipeline.save(run / model.name, card)
        results[model.name] |= {
            split: {key: value for key, value in found.items() if key != "samples"} for split, found in scores[origin].items()
        }
    results["samples"] = scores["best"].get("test", scores["best"]["validation"])["samples"]
    if processes.first:
        if not trainer.finished:
            results["unfinished"] = f"stopped at step {progress.step:,} of {recipe.training.steps:,}"
        write_report(run, results, load_pipeline(run / "best"), (task.test or task.valid)[:8], task.unit)
        write_json(run / "results.json", results)
        if trainer.finished:  # nothing is left to resume or average
            prune_checkpoints(trainer.folder, {progress.step})
    return results


def score_models(
    run: Path, trainer: Trainer, task: AnyTask, processes: Processes, screen: Screen
) -> dict[Name, dict[str, Scores]]:
    """Scores of the best and the final model by `validation` and `test`; of the best one alone if the two are equal."""
    processes.gather(None)  # wait until both models are written
    # With a falling learning rate the last weights are often the best ones: equal models are scored once.
    same = filecmp.cmp(run / "final" / WEIGHTS, run / "best" / WEIGHTS, shallow=False)
    names: tuple[Name, ...] = ("best",) if processes.gather(same)[0] else ("best", "final")
    tick = screen.track("scoring the best and the final model", len(names) * (2 if task.test else 1))
    scores: dict[Name, dict[str, Scores]] = {}
    for name in names:
        model = load_pipeline(run / name, trainer.device).model
        scores[name] = {"validation": task.validate(model, processes, everything=True)}
        tick(1)
        if task.test:
            scores[name]["test"] = task.score(model, task.test, processes)
            tick(1)
    return scores


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
