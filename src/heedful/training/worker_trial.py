"""How many worker processes to train with: the given number, or the fastest one in a short trial."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import torch

from heedful.jobs.registry import JOBS
from heedful.plan.plan import Speed
from heedful.recipes import Recipe
from heedful.runtime.cores import cores
from heedful.runtime.device import pick_device
from heedful.runtime.processes import Processes, most_workers
from heedful.runtime.screen import Screen, Silence
from heedful.training.trainer import Trainer

SECONDS = 3.0  # for each number of workers tried
LEAST_TOKENS = 500  # of a batch that make another worker worthwhile


def with_chosen_workers(
    recipe: Recipe,
    run: Path,
    screen: Screen,
    start: Callable[[int, str, Recipe], AbstractContextManager[Processes]],
    seconds: float | None = None,
) -> tuple[Recipe, Speed | None]:
    """The recipe with its number of workers set, and their speed if it was measured.

    `start(number, job, recipe)` starts that many workers on a job. With `seconds` a trial of this length always takes
    place, and measures everything that a plan depends on."""
    device, workers = pick_device(recipe.training.device), recipe.training.workers
    found: dict[int, Speed] = {}
    possible = [workers]
    if not workers:
        possible = possible_workers(device, recipe.training.batch_tokens)
        if recipe.training.shard:  # use all: a trial with one worker would need the whole model in one process
            possible = [cores() if device.type == "cpu" else most_workers(device)]
    if len(possible) > 1 or seconds:
        job = f"trial {seconds or 0:g}"
        for number in possible:
            with start(number, job, recipe) as processes:
                found[number] = measure_speed(recipe, run, processes, seconds or 0)
    workers = max(found, key=lambda number: found[number].rate, default=possible[0])
    for number, speed in found.items():
        screen.say(f"trial: {crew(number)}: {speed.rate:,.0f} {JOBS[recipe.task].task_class.unit}/s")
    recipe = replace(recipe, training=replace(recipe.training, workers=workers))
    if device.type == "cpu":
        screen.say(f"training with {crew(workers)}")
    return recipe, found.get(workers)


def possible_workers(device: torch.device, batch_tokens: int) -> list[int]:
    """Numbers of processes worth trying on a CPU: one, one per two cores, one per core, as long as each gets enough tokens
    of a batch. On other devices, one."""
    most = min(cores(), batch_tokens // LEAST_TOKENS) if device.type == "cpu" else 1
    return sorted({number for number in (1, cores() // 2, cores()) if number in (1, *range(2, most + 1))})


def crew(workers: int) -> str:
    """`2 workers of 1 thread`"""
    threads = max(1, cores() // workers) if workers > 1 else torch.get_num_threads()
    return f"{workers} worker{'s' * (workers > 1)} of {threads} thread{'s' * (threads > 1)}"


def measure_speed(
    recipe: Recipe, run: Path, processes: Processes, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> Speed:
    """Measure how fast these processes train; with 0 seconds, in a short trial of training steps only."""
    recipe = replace(recipe, decoding=replace(recipe.decoding, max_extra=0))
    task, threads = JOBS[recipe.task].task_class(recipe, run / "data"), torch.get_num_threads()
    try:
        return Trainer(task, recipe, run, processes, Silence()).trial(seconds or SECONDS, seconds > 0, clock)
    finally:
        torch.set_num_threads(threads)
