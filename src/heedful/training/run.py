"""A run directory from start to end: recipe checked, data prepared, model trained. The same command resumes it."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

from safetensors import SafetensorError

from heedful.errors import HeedfulError, Stopped, UsageError
from heedful.evaluation.score_names import RunResults
from heedful.jobs.registry import JOBS
from heedful.recipes import Recipe, load_recipe
from heedful.recipes.recipe import smallest_config
from heedful.runtime.device import pick_device
from heedful.runtime.files import disk_is_full, write_text
from heedful.runtime.lock import locked_directory
from heedful.runtime.processes import Processes, joined, most_workers, torchrun_place, with_workers
from heedful.runtime.run_log import MetricsLog
from heedful.runtime.screen import Screen, Silence
from heedful.runtime.stop_signals import stop_signals
from heedful.training.finish import finish_run, keep_best
from heedful.training.memory_check import check_memory
from heedful.training.plain_text import Helper, helper_recipe, helpers_of, translate_plain_text
from heedful.training.trainer import Trainer
from heedful.training.worker_trial import measure_speed, with_chosen_workers

# Settings that may differ when a run is resumed: they say where it is computed, not what.
FREE = ("training.workers", "training.device", "training.shard")

Result = TypeVar("Result")


def train(recipe: Recipe, run: Path, screen: Screen | None = None) -> RunResults:
    """Train a recipe in a run directory, or continue it; returns the results that `results.json` holds."""
    place = torchrun_place()
    screen = screen or (Screen() if place is None or place[0] == 0 else Silence())
    try:
        if place is not None and place[1] > 1:
            with joined(*place) as processes:
                return _train_together(recipe, run, processes, screen)
        return _train_alone(recipe, run, screen)
    except (OSError, SafetensorError) as error:
        if disk_is_full(error):
            raise HeedfulError(
                f"the disk is full ({error}); checkpoints already written are intact. "
                "Free some space and run the same command again to continue"
            ) from error
        raise
    finally:
        screen.close()


def _train_alone(recipe: Recipe, run: Path, screen: Screen) -> RunResults:
    """Train as the process that starts the others, if there are any."""
    with locked_directory(run):
        settled = _settle(recipe, run)
        if finished_results(run) is None:
            for helper in helpers_of(recipe):
                _announce(helper, screen)
                _train_alone(helper_recipe(settled, helper), run / helper.folder, screen)
                translate_plain_text(settled, run, helper, screen)
        recipe = _open(settled, run, screen)
        done = finished_results(run)
        if done is not None:
            return done
        recipe = with_chosen_workers(recipe, run, screen, lambda number, job, own: _started(number, run, job, own))
        write_text(run / "recipe.toml", recipe.to_toml())
        with _started(recipe.training.workers, run, "train", recipe) as processes:
            return _train_and_finish(recipe, run, processes, screen)


def _train_together(recipe: Recipe, run: Path, processes: Processes, screen: Screen) -> RunResults:
    """Train as one of several processes that torchrun started."""
    with locked_directory(run) if processes.first else nullcontext():
        settled = _as_first(processes, lambda: _settle(recipe, run))
        if _as_first(processes, lambda: finished_results(run) is None):
            for helper in helpers_of(recipe):
                _announce(helper, screen)
                _train_together(helper_recipe(settled, helper), run / helper.folder, processes, screen)
                _as_first(processes, lambda own=helper: translate_plain_text(settled, run, own, screen))
        recipe = _as_first(processes, lambda: _open(settled, run, screen))
        return finished_results(run) or _train_and_finish(recipe, run, processes, screen)


def _announce(helper: Helper, screen: Screen) -> None:
    direction = "of the other direction" if helper.reverse else "of the same direction"
    screen.say(f"before it, a model {direction} in {helper.folder}/")


def finished_results(run: Path) -> RunResults | None:
    """The results of a run that has finished."""
    try:
        results: RunResults = json.loads((run / "results.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return None if results.get("unfinished") else results


def _open(recipe: Recipe, run: Path, screen: Screen) -> Recipe:
    """Unless the run has finished, prepare the data."""
    if finished_results(run) is not None:
        screen.say(f"{run} has finished; delete it or give another --run to train again")
        return recipe
    if not recipe.model["pretrained"] and not recipe.training.shard:
        check_memory(smallest_config(recipe), pick_device(recipe.training.device))  # before any work on the data
    JOBS[recipe.task].task_class.prepare(recipe, run / "data", screen)
    screen.close()
    path = run / "recipe.toml"
    if not path.exists():  # only now, so that a mistake in the data does not leave a recipe that blocks the next attempt
        write_text(path, recipe.to_toml())
    return recipe


def _settle(recipe: Recipe, run: Path) -> Recipe:
    """The recipe a run began with, which the one asked for must equal."""
    path = run / "recipe.toml"
    device, asked = pick_device(recipe.training.device), recipe.training.workers
    if asked > most_workers(device):
        raise UsageError(f"training.workers={asked} is too many for {device}; {most_workers(device)} is the most")
    if not path.exists():
        return recipe
    before = load_recipe(str(path))
    then, now = before.flat(), recipe.flat()
    changed = [
        f"{key} was {then.get(key)!r}, is {now.get(key)!r}"
        for key in dict.fromkeys([*then, *now])
        if key not in FREE and then.get(key) != now.get(key)
    ]
    if changed:
        raise UsageError(
            f"{run} was begun with another recipe: {'; '.join(changed)}. "
            "Give the old values to continue it, or another --run to start again"
        )
    workers = asked or min(before.training.workers, most_workers(device))
    return replace(recipe, training=replace(recipe.training, workers=workers))


def _as_first(processes: Processes, work: Callable[[], Result]) -> Result:
    """Under torchrun the first process does some work; the others wait for what comes of it."""
    problem: HeedfulError | None = None
    result: Result | None = None
    if processes.first:
        try:
            result = work()
        except HeedfulError as error:
            problem = error
    failed, found = processes.gather((None if problem is None else str(problem), result))[0]
    if problem is not None:
        raise problem
    if failed:
        raise HeedfulError(failed)
    return cast(Result, found)


def _started(number: int, run: Path, job: str, recipe: Recipe) -> AbstractContextManager[Processes]:
    """Worker processes of this machine on a job; this process leads them."""
    return with_workers(number, run, "heedful.training.worker", [job, *_free_settings(recipe)])


def _free_settings(recipe: Recipe) -> list[str]:
    """Settings that a worker is given, because the recipe that a run began with may differ in them."""
    flat = recipe.flat()
    return [f"{key}={flat[key]}" for key in FREE]


def work(run: Path, processes: Processes, job: str, settings: list[str]) -> None:
    """What a worker does: the same as its leader, silently."""
    recipe = load_recipe(str(run / "recipe.toml"), settings)
    if job == "trial":
        measure_speed(recipe, run, processes)
    else:
        _train_and_finish(recipe, run, processes, Silence())


def _train_and_finish(recipe: Recipe, run: Path, processes: Processes, screen: Screen) -> RunResults:
    """Train to the end and score, or stop when asked to."""
    task = JOBS[recipe.task].task_class(recipe, run / "data")
    trainer = Trainer(task, recipe, run, processes, screen)
    if processes.first:
        total = sum(p.numel() for p in trainer.judged_model.parameters())
        origin = recipe.model["pretrained"] or recipe.model["preset"]
        screen.say(f"model: {origin}, {total:,} parameters, on {trainer.device} in {trainer.optimizer_step.precision}")
    if trainer.resume():
        screen.say(f"continuing from step {trainer.progress.step:,}")
    log = MetricsLog(run, trainer.progress.step) if processes.first else None

    try:
        with stop_signals(trainer.ask_to_stop) as asked:
            done = trainer.train(log, keep_best(recipe, run, trainer, task, processes))
    finally:
        if log is not None:
            log.close()
    screen.close()
    if not done:
        raise Stopped(
            f"stopped at step {trainer.progress.step:,} of {recipe.training.steps:,}, saved. The same command continues it; "
            f"`heedful finish {shlex.quote(str(run))}` makes a model and a report from its last checkpoint",
            asked[0] if asked else signal.SIGTERM,
        )
    return finish_run(recipe, run, trainer, task, processes, screen)


def finish(run: Path, screen: Screen | None = None) -> RunResults:
    """Models, scores and report of a run that was stopped, from its last checkpoint; training can be continued from there."""
    screen = screen or Screen()
    path = run / "recipe.toml"
    if not path.is_file():
        raise UsageError(f"{run} is not a run: it has no recipe.toml")
    with locked_directory(run):
        done = finished_results(run)
        if done is not None:
            screen.say(f"{run} has finished")
            return done
        recipe = load_recipe(str(path))
        recipe = replace(recipe, training=replace(recipe.training, workers=1, shard=False))
        if not (run / "data" / "manifest.json").is_file():
            raise HeedfulError(f"{run} has no prepared data; run the same `heedful train` command again to continue")
        task = JOBS[recipe.task].task_class(recipe, run / "data")
        processes = Processes()
        trainer = Trainer(task, recipe, run, processes, screen)
        try:
            if not trainer.resume():
                raise HeedfulError(f"{run} has no checkpoint yet; run the same `heedful train` command again to continue")
            screen.say(f"from the checkpoint of step {trainer.progress.step:,} of {recipe.training.steps:,}")
            if trainer.progress.best is None or not (run / "best" / "model.safetensors").is_file():
                trainer.progress.best = None
                trainer.validate(None, keep_best(recipe, run, trainer, task, processes))
            return finish_run(recipe, run, trainer, task, processes, screen)
        finally:
            screen.close()
