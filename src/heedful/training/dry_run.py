"""`--dry-run`: does everything up to the first training step in a temporary folder, and reports what training would need."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import torch

from heedful.errors import UsageError
from heedful.jobs.registry import JOBS
from heedful.models import build_model
from heedful.plan.plan import Clock, Plan
from heedful.recipes import Recipe
from heedful.runtime.device import memory_of_machine
from heedful.runtime.processes import torchrun_place
from heedful.runtime.screen import Screen, duration
from heedful.tasks.task import AnyTask
from heedful.training.plain_text import without_helpers
from heedful.training.run import open_run, with_workers_and_steps
from heedful.training.worker_trial import SECONDS


def dry_run(recipe: Recipe, run: Path, screen: Screen, seconds: float | None = None) -> None:
    """Report what `train` would do with the same arguments; nothing is trained or kept."""
    if torchrun_place() is not None:
        raise UsageError("--dry-run is for one machine; leave out torchrun")
    if (run / "recipe.toml").exists():
        screen.say(f"{run} exists already: the same command without --dry-run continues it. What follows describes a new run")
    recipe, seconds = without_helpers(recipe, seconds, screen)
    with tempfile.TemporaryDirectory(prefix="heedful-") as folder:
        there = Path(folder)
        recipe, fit = open_run(recipe, there, screen, seconds)
        recipe, speed = with_workers_and_steps(recipe, fit, there, screen, (fit and fit.trial_seconds) or SECONDS)
        task = JOBS[recipe.task].task_class(recipe, there / "data")
        data = sum(path.stat().st_size for path in (there / "data").iterdir())
    assert speed is not None
    s = recipe.training
    validated, scored = min(s.validate_pairs, len(task.valid)), len(task.valid) + len(task.test)
    clock = Clock(speed, s.r_drop_from if s.r_drop else 1.0, validated, scored)
    if fit is not None:
        show_choices(fit.plan(speed), screen)
    screen.say(f"time    about {duration(clock.seconds_of(s.steps, -(-s.steps // s.validate_every)))} for {s.steps:,} steps")
    screen.say(f"memory  about {size(speed.memory)} of {size(memory_of_machine())}")
    disk, free = data + disk_of_models(task, recipe), shutil.disk_usage(existing(run)).free
    screen.say(f"disk    about {size(disk)} of {size(free)} free")
    for needed, there_is, what in ((speed.memory, memory_of_machine(), "memory"), (disk, free, "disk")):
        if needed > there_is:
            screen.say(f"warning: there is not enough {what}; use a smaller model.preset, or model.layers and model.d_model")
    screen.say("nothing was trained, and nothing was kept")


def show_choices(plan: Plan, screen: Screen) -> None:
    """Every choice of a plan with its reason."""
    width = max((len(f"{choice.setting}={choice.value}") for choice in plan.choices), default=0)
    for choice in plan.choices:
        screen.say(f"    {f'{choice.setting}={choice.value}':{width}}  {choice.reason}")


def disk_of_models(task: AnyTask, recipe: Recipe) -> int:
    """Bytes of the checkpoints that a run keeps while it trains, and of its two models."""
    with torch.device("meta"):
        parameters = sum(parameter.numel() for parameter in build_model(task.config).parameters())
    s = recipe.training
    vectors = 3 + (s.ema > 0)  # the weights, two moments, and the running mean
    history = s.steps // s.history + 1 if s.history else 0
    return 4 * parameters * (vectors * (max(2, s.average) + 1) + 2 + history)


def existing(path: Path) -> Path:
    """The nearest folder around a path that exists."""
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def size(count: float) -> str:
    """`740 MB`, `1.2 GB`"""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"
