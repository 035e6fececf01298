"""A run directory from beginning to end: checked, locked, trained, scored, reported. The same command continues it."""

from __future__ import annotations

import filecmp
import json
import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from heedful.errors import HeedfulError, Stopped, UsageError
from heedful.jobs.registry import JOBS
from heedful.pipelines import load_pipeline
from heedful.recipes import Recipe, load_recipe
from heedful.recipes.recipe import smallest_config
from heedful.runtime.device import pick_device
from heedful.runtime.files import disk_is_full, write_json, write_text
from heedful.runtime.processes import (
    Processes,
    cores,
    joined,
    most_workers,
    possible_workers,
    torchrun_place,
    with_workers,
)
from heedful.runtime.run_log import MetricsLog
from heedful.runtime.screen import Screen, Silence
from heedful.tasks.task import Task
from heedful.training.card import model_card
from heedful.training.checkpoint import prune_checkpoints
from heedful.training.memory import check_memory
from heedful.training.trainer import Trainer

# What may differ when a run is continued: where and by how many it is computed, not what.
FREE = ("training.workers", "training.device", "training.shard")
TRIAL = 3.0  # seconds of training by which the number of workers is picked


def train(recipe: Recipe, run: Path, screen: Screen | None = None) -> dict[str, Any]:
    """Train a recipe in a run directory, or continue it; returns the results that `results.json` holds."""
    place = torchrun_place()
    screen = screen or (Screen() if place is None or place[0] == 0 else Silence())
    try:
        if place is not None and place[1] > 1:
            with joined(*place) as processes, _locked(run) if processes.first else nullcontext():
                recipe = _open_together(recipe, run, processes, screen)
                return finished_results(run) or _train_and_finish(recipe, run, processes, screen)
        with _locked(run):
            recipe = _open(recipe, run, screen)
            done = finished_results(run)
            if done is not None:
                return done
            recipe = _with_picked_workers(recipe, run, screen)
            world = recipe.training.workers
            with with_workers(world, run, "train", _free_settings(recipe)) as processes:
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


def finished_results(run: Path) -> dict[str, Any] | None:
    """The results of a run that came to its end."""
    try:
        results: dict[str, Any] = json.loads((run / "results.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return None if results.get("unfinished") else results


def finish(run: Path, screen: Screen | None = None) -> dict[str, Any]:
    """Models, scores and report of a run that was stopped, from its last checkpoint; training can still go on from there."""
    screen = screen or Screen()
    path = run / "recipe.toml"
    if not path.is_file():
        raise UsageError(f"{run} is not a run: it has no recipe.toml")
    with _locked(run):
        done = finished_results(run)
        if done is not None:
            screen.say(f"{run} is finished")
            return done
        recipe = load_recipe(str(path))
        recipe = replace(recipe, training=replace(recipe.training, workers=1, shard=False))
        if not (run / "data" / "manifest.json").is_file():
            raise HeedfulError(f"{run} has no prepared data; run the same `heedful train` command again to go on")
        task = JOBS[recipe.task].task_class(recipe, run / "data")
        processes = Processes()
        trainer = Trainer(task, recipe, run, processes, screen)
        try:
            if not trainer.resume():
                raise HeedfulError(f"{run} has no checkpoint yet; run the same `heedful train` command again to go on")
            screen.say(f"from the checkpoint of step {trainer.progress.step:,} of {recipe.training.steps:,}")
            if trainer.progress.best is None or not (run / "best" / "model.safetensors").is_file():
                trainer.progress.best = None
                trainer.validate(None, _keep_best(recipe, run, trainer, task, processes))
            return _finish(recipe, run, trainer, task, processes, screen)
        finally:
            screen.close()


def _open(recipe: Recipe, run: Path, screen: Screen) -> Recipe:
    """Settle the recipe, see whether there is anything left to do, and prepare the data."""
    recipe = _settle(recipe, run)
    if finished_results(run) is not None:
        screen.say(f"{run} is finished; delete it or give another --run to train again")
        return recipe
    if not recipe.model["pretrained"] and not recipe.training.shard:
        check_memory(smallest_config(recipe), pick_device(recipe.training.device))  # before any work on the data
    JOBS[recipe.task].task_class.prepare(recipe, run / "data", screen)
    screen.close()
    path = run / "recipe.toml"
    if not path.exists():  # only now: a mistake in the data leaves nothing behind that would be in the way
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
            "Give the old values to continue it, or another --run to start anew"
        )
    workers = asked or min(before.training.workers, most_workers(device))
    return replace(recipe, training=replace(recipe.training, workers=workers))


def _open_together(recipe: Recipe, run: Path, processes: Processes, screen: Screen) -> Recipe:
    """Under torchrun the first process opens the run; the others then find everything there."""
    problem: HeedfulError | None = None
    if processes.first:
        try:
            recipe = _open(recipe, run, screen)
        except HeedfulError as error:
            problem = error
    failed, recipe = processes.gather((None if problem is None else str(problem), recipe))[0]
    if problem is not None:
        raise problem
    if failed:
        raise HeedfulError(failed)
    return recipe


def _with_picked_workers(recipe: Recipe, run: Path, screen: Screen) -> Recipe:
    """The recipe with a number of workers: the one told, or the fastest of those that are possible, by a short trial."""
    device, workers = pick_device(recipe.training.device), recipe.training.workers
    if not workers:
        found: dict[int, float] = {}
        possible = possible_workers(device, recipe.training.batch_tokens)
        if recipe.training.shard:  # all there are: a trial of one would need the model whole
            possible = [cores() if device.type == "cpu" else most_workers(device)]
        for number in possible if len(possible) > 1 else []:
            with with_workers(number, run, "trial", _free_settings(recipe)) as processes:
                found[number] = _trial(recipe, run, processes)
        workers = max(found, key=found.__getitem__, default=possible[0])
        for number, rate in found.items():
            screen.say(f"trial: {_crew(number)}: {rate:,.0f} {JOBS[recipe.task].task_class.unit}/s")
        recipe = replace(recipe, training=replace(recipe.training, workers=workers))
        write_text(run / "recipe.toml", recipe.to_toml())
    if device.type == "cpu":
        screen.say(f"training with {_crew(workers)}")
    return recipe


def _crew(workers: int) -> str:
    """`2 workers of 1 thread`"""
    threads = max(1, cores() // workers) if workers > 1 else torch.get_num_threads()
    return f"{workers} worker{'s' * (workers > 1)} of {threads} thread{'s' * (threads > 1)}"


def _trial(recipe: Recipe, run: Path, processes: Processes) -> float:
    """How much is trained on in a second."""
    task, threads = JOBS[recipe.task].task_class(recipe, run / "data"), torch.get_num_threads()
    try:
        return Trainer(task, recipe, run, processes, Silence()).trial(TRIAL)
    finally:
        torch.set_num_threads(threads)


def _free_settings(recipe: Recipe) -> list[str]:
    """What a worker must be told, because the recipe that a run began with may say otherwise."""
    flat = recipe.flat()
    return [f"{key}={flat[key]}" for key in FREE]


def work(run: Path, processes: Processes, job: str, settings: list[str]) -> None:
    """What a worker does: the same as its leader, silently."""
    recipe = load_recipe(str(run / "recipe.toml"), settings)
    if job == "trial":
        _trial(recipe, run, processes)
    else:
        _train_and_finish(recipe, run, processes, Silence())


def _train_and_finish(recipe: Recipe, run: Path, processes: Processes, screen: Screen) -> dict[str, Any]:
    task = JOBS[recipe.task].task_class(recipe, run / "data")
    trainer = Trainer(task, recipe, run, processes, screen)
    if processes.first:
        total = sum(p.numel() for p in trainer.judged_model.parameters())
        origin = recipe.model["pretrained"] or recipe.model["preset"]
        screen.say(f"model: {origin}, {total:,} parameters, on {trainer.device} in {trainer.precision}")
    if trainer.resume():
        screen.say(f"continuing from step {trainer.progress.step:,}")
    log = MetricsLog(run, trainer.progress.step) if processes.first else None

    try:
        with _stoppable(trainer) as asked:
            done = trainer.train(log, _keep_best(recipe, run, trainer, task, processes))
    finally:
        if log is not None:
            log.close()
    screen.close()
    if not done:
        raise Stopped(
            f"stopped at step {trainer.progress.step:,} of {recipe.training.steps:,}, saved. The same command continues it; "
            f"`heedful finish {shlex.quote(str(run))}` makes a model and a report of what it has learned so far",
            asked[0] if asked else signal.SIGTERM,
        )
    return _finish(recipe, run, trainer, task, processes, screen)


def _keep_best(recipe: Recipe, run: Path, trainer: Trainer, task: Task, processes: Processes) -> Callable[[dict[str, Any]], None]:
    """What to do after the best validation so far: keep the model."""

    def keep(scores: dict[str, Any]) -> None:
        model, progress = trainer.judged_model, trainer.progress
        card = model_card(recipe, model, progress, {"validation": scores}, "best", processes.world, task.unit)
        task.pipeline(model).save(run / "best", card)

    return keep


def _finish(recipe: Recipe, run: Path, trainer: Trainer, task: Task, processes: Processes, screen: Screen) -> dict[str, Any]:
    """Average, score both models on everything held out, write cards, results and report."""
    final = trainer.settle()
    screen.say(f"final model: {final}")
    if processes.first:
        task.pipeline(trainer.judged_model).save(run / "final", "")
    processes.gather(None)  # both models are written
    # With a falling learning rate the last weights are often the best ones: what is the same is scored once.
    same = filecmp.cmp(run / "final" / "model.safetensors", run / "best" / "model.safetensors", shallow=False)
    same = processes.gather(same)[0]
    results: dict[str, Any] = {"steps": trainer.progress.step, "seconds": round(trainer.progress.seconds, 1)}
    results["scored"] = scoring_words(task, recipe)
    tick = screen.track("scoring the best and the final model", (1 if same else 2) * (2 if task.test else 1))
    for name in ("final", "best"):
        pipeline = load_pipeline(run / name, trainer.device)
        if name == "final" or not same:
            scores = {"validation": task.validate(pipeline.model, processes, everything=True)}
            tick(1)
            if task.test:
                scores["test"] = task.score(pipeline.model, task.test, processes)
                tick(1)
        if processes.first:
            progress, which = trainer.progress, f"final, {final}"
            if name == "best":
                progress, which = replace(progress, step=progress.best_step), f"best by {recipe.training.metric}"
            pipeline.save(run / name, model_card(recipe, pipeline.model, progress, scores, which, processes.world, task.unit))
        results[name] = {split: {k: v for k, v in found.items() if k != "samples"} for split, found in scores.items()}
        results["samples"] = scores.get("test", scores["validation"])["samples"]
    if processes.first:
        from heedful.explain.report import write_report

        if not trainer.finished:
            results["unfinished"] = f"stopped at step {trainer.progress.step:,} of {recipe.training.steps:,}"
        write_report(run, results, load_pipeline(run / "best"), (task.test or task.valid)[:8], task.unit)
        write_json(run / "results.json", results)
        if trainer.finished:  # nothing is left to resume or to average
            prune_checkpoints(trainer.folder, {trainer.progress.step})
    return results


def scoring_words(task: Task, recipe: Recipe) -> str:
    """Why the scores at the end differ from those of the validations while training, where they may; or nothing."""
    quick, whole = task.search_words(quick=True), task.search_words()
    judged = min(recipe.training.validate_pairs, len(task.valid))
    differences = []
    if quick != whole:
        differences.append(f"with {whole}, where validations while training were {quick}")
    if judged < len(task.valid):
        differences.append(f"on all {len(task.valid):,} validation examples, where validations while training used {judged:,}")
    return f"scored {' and '.join(differences)}" if differences else ""


@contextmanager
def _stoppable(trainer: Trainer) -> Iterator[list[int]]:
    """Ctrl-C, SIGTERM and SIGHUP (a closed terminal), to any of the processes, let the step finish and save.

    A second Ctrl-C stops at once. A second SIGTERM does not: a cluster may send it to torchrun, which passes it on, and
    to us. A signal that is ignored, as SIGHUP is under nohup, stays so. Yields the signals that have come.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def handle(number: int, frame: object) -> None:
        if trainer.stop_asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)
        trainer.stop_asked = True

    wanted = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {n: signal.signal(n, handle) for n in wanted if signal.getsignal(n) is not signal.SIG_IGN}
    try:
        yield asked
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def _locked(run: Path) -> Iterator[None]:
    """Make the run directory; only one training at a time in it. A start that leaves nothing leaves no directory."""
    import fcntl

    try:
        run.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{run} is a file, not a directory for a run") from error
    path = run / ".lock"
    while True:
        with open(path, "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise HeedfulError(f"another process is training in {run}") from error
            try:
                if path.stat().st_ino != os.fstat(file.fileno()).st_ino:
                    continue  # the process before us has just removed it
            except FileNotFoundError:
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
                with suppress(OSError):
                    run.rmdir()  # only if it is empty
            return
