"""A run directory from start to end: recipe checked, data prepared, model trained. The same command resumes it."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from safetensors import SafetensorError

from heedful.errors import HeedfulError, Stopped, UsageError
from heedful.evaluation.score_names import RunResults
from heedful.jobs.registry import JOBS
from heedful.plan.plan import Speed
from heedful.recipes import Recipe, load_recipe
from heedful.recipes.open_settings import origin_of, with_values
from heedful.recipes.recipe import smallest_config
from heedful.runtime.device import pick_device
from heedful.runtime.files import disk_is_full, write_text
from heedful.runtime.lock import locked_directory
from heedful.runtime.processes import Processes, joined, most_workers, torchrun_place, with_workers
from heedful.runtime.run_log import MetricsLog
from heedful.runtime.screen import Screen, Silence
from heedful.runtime.stop_signals import stop_signals
from heedful.tasks.translation import synthetic_pairs
from heedful.training.finish import finish_run, keep_best
from heedful.training.fit import Fit
from heedful.training.memory_check import check_memory
from heedful.training.plain_text import train_helpers
from heedful.training.trainer import Trainer
from heedful.training.worker_trial import measure_speed, with_chosen_workers

# Settings that may differ when a run is resumed: they say where it is computed, not what.
FREE = ("training.workers", "training.device", "training.shard")
TRIAL = "trial.toml"  # the recipe that a trial of workers is made with; it is there as long as the trial lasts


def train(recipe: Recipe, run: Path, screen: Screen | None = None, seconds: float | None = None) -> RunResults:
    """Train a recipe in a run directory, or continue it; returns the results that `results.json` holds.

    A recipe that leaves settings open is planned for so many `seconds` in all, or else until more training brings little.
    """
    place = torchrun_place()
    screen = screen or (Screen() if place is None or place[0] == 0 else Silence())
    try:
        if place is not None and place[1] > 1:
            with joined(*place) as processes:
                return _train_together(recipe, run, processes, screen, seconds)
        with locked_directory(run):
            check_time(recipe, seconds)
            if not (run / "recipe.toml").exists():
                seconds = train_helpers(recipe, run, screen, seconds, lambda *own: train(own[0], own[1], screen, own[2]))
            recipe, fit = open_run(recipe, run, screen, seconds)
            done = finished_results(run)
            if done is not None:
                return done
            recipe, _ = with_workers_and_steps(recipe, fit, run, screen)
            write_text(run / "recipe.toml", recipe.to_toml())
            with _started(run, recipe.training.workers, "train", recipe) as processes:
                return _train_and_finish(recipe, run, processes, screen)
    except (OSError, SafetensorError) as error:
        if disk_is_full(error):
            raise HeedfulError(
                f"the disk is full ({error}); checkpoints already written are intact. "
                "Free some space and run the same command again to continue"
            ) from error
        raise
    finally:
        screen.close()


def _train_together(recipe: Recipe, run: Path, processes: Processes, screen: Screen, seconds: float | None) -> RunResults:
    """Train as one of several processes that torchrun started."""
    with locked_directory(run) if processes.first else nullcontext():
        check_time(recipe, seconds)
        if not processes.gather((run / "recipe.toml").exists())[0]:

            def train_helper(own: Recipe, folder: Path, share: float | None) -> object:
                return _train_together(own, folder, processes, screen, share)

            def as_first(work: Callable[[], None]) -> None:
                _first_does(processes, work)

            seconds = train_helpers(recipe, run, screen, seconds, train_helper, as_first)
        recipe = _open_together(recipe, run, processes, screen, seconds)
        return finished_results(run) or _train_and_finish(recipe, run, processes, screen)


def read_results(run: Path) -> RunResults:
    """The results of a run that was scored."""
    results: RunResults = json.loads((run / "results.json").read_text(encoding="utf-8"))
    return results


def finished_results(run: Path) -> RunResults | None:
    """The results of a run that has finished."""
    try:
        results = read_results(run)
    except FileNotFoundError:
        return None
    return None if results.get("unfinished") else results


def open_run(recipe: Recipe, run: Path, screen: Screen, seconds: float | None) -> tuple[Recipe, Fit | None]:
    """Settle the recipe and, unless the run has finished, prepare the data; also how the recipe is fitted to them, if it is."""
    check_time(recipe, seconds)
    recipe = _settle(recipe, run, screen, seconds)
    if finished_results(run) is not None:
        screen.say(f"{run} has finished; delete it or give another --run to train again")
        return recipe, None
    fit = Fit(recipe, seconds, synthetic_pairs(recipe, run / "data")) if recipe.open else None
    if fit is not None:
        fit.look_at_machine(screen)
        recipe = fit.filled(fit.plan())
    if not recipe.model["pretrained"] and not recipe.training.shard:
        check_memory(smallest_config(recipe), pick_device(recipe.training.device))  # before any work on the data
    JOBS[recipe.task].task_class.prepare(recipe, run / "data", screen)
    screen.close()
    if fit is not None:
        fit.look_at_prepared(run / "data")
        recipe = fit.filled(fit.plan())
    return recipe, fit


def check_time(recipe: Recipe, seconds: float | None) -> None:
    """Raise an error if a time is given for a recipe whose steps are decided already."""
    if seconds is not None and "training.steps" not in recipe.open:
        raise UsageError("--time decides training.steps: it is for a recipe that leaves them open, such as `translation`")


def with_workers_and_steps(
    recipe: Recipe, fit: Fit | None, run: Path, screen: Screen, seconds: float | None = None
) -> tuple[Recipe, Speed | None]:
    """The recipe with a number of workers and, where it is fitted, what follows from their speed; both by a trial.

    With `seconds` there is a trial of this length in any case.
    """
    path = run / TRIAL
    write_text(path, recipe.to_toml())
    try:
        wanted = seconds or (fit.trial_seconds if fit is not None else None)
        recipe, speed = with_chosen_workers(recipe, run, screen, partial(_started, run), wanted)
    finally:
        path.unlink()
    if fit is not None:
        plan = fit.plan(speed)
        fit.describe(plan, screen)
        filled = fit.filled(plan)
        recipe = replace(filled, training=replace(filled.training, workers=recipe.training.workers))
    return recipe, speed


def _settle(recipe: Recipe, run: Path, screen: Screen, seconds: float | None) -> Recipe:
    """The recipe a run began with, which the one asked for must equal; what it leaves open was decided then."""
    path = run / "recipe.toml"
    device, asked = pick_device(recipe.training.device), recipe.training.workers
    if asked > most_workers(device):
        raise UsageError(f"training.workers={asked} is too many for {device}; {most_workers(device)} is the most")
    if not path.exists():
        return recipe
    before = load_recipe(str(path))
    then = before.flat()
    if seconds is not None:
        screen.say(f"{run} goes on with the plan it began with; --time counts only at the start")
    recipe = with_values(recipe, {name: then[name] for name in recipe.open if name in then})
    now = recipe.flat()
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


def _open_together(recipe: Recipe, run: Path, processes: Processes, screen: Screen, seconds: float | None) -> Recipe:
    """Under torchrun the first process opens the run; the others then find everything there."""
    fit: Fit | None = None

    def open_it() -> None:
        nonlocal recipe, fit
        recipe, fit = open_run(recipe, run, screen, seconds)

    _first_does(processes, open_it)
    recipe, trial = processes.gather((recipe, fit and fit.trial_seconds))[0]
    speed = measure_speed(recipe, run, processes, trial) if trial else None
    if fit is not None:
        plan = fit.plan(speed)
        fit.describe(plan, screen)
        recipe = fit.filled(plan)
    recipe = processes.gather(recipe)[0]
    if processes.first and not (run / "recipe.toml").exists():
        write_text(run / "recipe.toml", recipe.to_toml())
    return recipe


def _first_does(processes: Processes, work: Callable[[], None]) -> None:
    """Under torchrun the first process does some work, for which the others wait; if it fails, all do."""
    problem: HeedfulError | None = None
    if processes.first:
        try:
            work()
        except HeedfulError as error:
            problem = error
    failed = processes.gather(None if problem is None else str(problem))[0]
    if problem is not None:
        raise problem
    if failed:
        raise HeedfulError(failed)


def _started(run: Path, number: int, job: str, recipe: Recipe) -> AbstractContextManager[Processes]:
    """Worker processes of this machine on a job; this process leads them."""
    return with_workers(number, run, "heedful.training.worker", [job, *_free_settings(recipe)])


def _free_settings(recipe: Recipe) -> list[str]:
    """Settings that a worker is given, because the recipe that a run began with may differ in them."""
    flat = recipe.flat()
    return [f"{key}={flat[key]}" for key in FREE]


def work(run: Path, processes: Processes, job: str, settings: list[str]) -> None:
    """What a worker does: the same as its leader, silently."""
    what, _, seconds = job.partition(" ")
    recipe = load_recipe(str(run / (TRIAL if what == "trial" else "recipe.toml")), settings)
    if what == "trial":
        measure_speed(recipe, run, processes, float(seconds))
    else:
        _train_and_finish(recipe, run, processes, Silence())


def _train_and_finish(recipe: Recipe, run: Path, processes: Processes, screen: Screen) -> RunResults:
    """Train to the end and score, or stop when asked to."""
    task = JOBS[recipe.task].task_class(recipe, run / "data")
    trainer = Trainer(task, recipe, run, processes, screen)
    if processes.first:
        total = sum(p.numel() for p in trainer.judged_model.parameters())
        screen.say(f"model: {origin_of(recipe)}, {total:,} parameters, on {trainer.device} in {trainer.optimizer_step.precision}")
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
