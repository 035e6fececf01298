"""The training loop (Section 5): steps, validations and checkpoints, with exact resume.

Every random number of a step is a function of (seed, step, rank) and the order of the data of (seed, epoch). So a run
resumed from a checkpoint does exactly what it would have done without the interruption.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import nn

from heedful.data.batches import Position, Prefetch
from heedful.errors import HeedfulError
from heedful.evaluation.score_names import Scores, one_line, ranking
from heedful.jobs.registry import WRITERS
from heedful.nn.fast.linear import choose_library, chosen_library
from heedful.plan.plan import Speed
from heedful.recipes import Recipe
from heedful.runtime.processes import Processes
from heedful.runtime.run_log import MetricsLog
from heedful.runtime.screen import Screen
from heedful.tasks.task import AnyTask
from heedful.training.averaging import mean_weights
from heedful.training.checkpoint import (
    Progress,
    list_checkpoints,
    load_checkpoint,
    newest_intact,
    prune_checkpoints,
    save_checkpoint,
)
from heedful.training.optimizer_step import Batches, OptimizerStep
from heedful.training.step_window import StepWindow
from heedful.training.weight_history import keep_weights

TRIAL_WARMUP = 2  # steps of a trial that are not timed
RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes
TRIAL_PAIRS = 100  # held-out pairs that a trial scores
LOGGED = 1000  # characters of a sample that metrics.jsonl keeps of every validation; results.json has the whole texts


class Trainer:
    """Trains the model of a task inside a run directory, as one of several processes."""

    def __init__(self, task: AnyTask, recipe: Recipe, run: Path, processes: Processes, screen: Screen) -> None:
        self.task, self.recipe, self.run, self.processes, self.screen = task, recipe, run, processes, screen
        self.settings = recipe.training
        self.optimizer_step = OptimizerStep(task, recipe.training, processes)
        self.device, self.weights = self.optimizer_step.device, self.optimizer_step.weights
        self.model, self.eval_model = self.optimizer_step.model, self.optimizer_step.eval_model
        self.progress = Progress()
        self.folder = run / "checkpoints"
        self.stop_asked = False

    def ask_to_stop(self) -> None:
        """Make `train` finish the current step, save a checkpoint and return."""
        self.stop_asked = True

    # Continuing

    def resume(self) -> bool:
        """Load the newest checkpoint that is intact, if there is one."""
        newest = newest_intact(self.folder, self.screen.say) if self.processes.first else None
        newest = self.processes.gather(newest)[0]
        if newest is None:
            return False
        tensors, layout, self.progress = load_checkpoint(newest)
        if layout != self.weights.layout:
            raise HeedfulError(f"{newest} belongs to a model other than this recipe's")
        self.weights.load(tensors, self.progress.step - self.progress.skipped)
        if self.progress.library:
            choose_library(self.progress.library)
        return True

    def save(self) -> None:
        """Write a checkpoint and delete those no longer needed."""
        vectors = self.weights.vectors()
        if not self.processes.first:
            return
        self.progress.library = chosen_library()
        save_checkpoint(self.folder, vectors, self.weights.layout, self.progress)
        prune_checkpoints(self.folder, {self.progress.step, *self.scheduled()[-max(2, self.settings.average) :]})

    def keep_history(self) -> None:
        """Archive the weights of this step if `training.history` asks for it."""
        if not self.settings.history or self.progress.step % self.settings.history:
            return
        with self.weights.averaged():
            self.weights.fill(self.eval_model)
            if self.processes.first:
                keep_weights(self.folder.parent, self.progress.step, self.eval_model)

    def scheduled(self) -> list[int]:
        """Steps so far whose checkpoints were scheduled; a checkpoint made by Ctrl-C is not, and is never averaged."""
        step = self.progress.step
        planned = list(range(self.settings.checkpoint_every, step + 1, self.settings.checkpoint_every))
        if self.finished and step not in planned:
            planned.append(step)
        return planned

    # Training

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or early stopping has ended the run."""
        out_of_patience = 0 < self.settings.patience <= self.progress.stale
        return self.progress.step >= self.settings.steps or out_of_patience

    def train(self, log: MetricsLog | None, on_best: Callable[[Scores], None]) -> bool:
        """Train to the end (True) or until asked to stop (False). `on_best` is called after a best validation."""
        s, p = self.settings, self.progress
        items = self.task.batches(Position(p.epoch, p.batch), self.processes.rank, self.processes.world)
        data = Prefetch(items)
        window = StepWindow(p)
        try:
            self.screen.at_step(p.step, s.steps)
            self.keep_history()
            if not p.step and self.recipe.model["pretrained"] and self.recipe.model["kind"] in WRITERS:
                self.validate(log, on_best)  # score the pre-trained model itself, so that the best model is never worse than it
            while not self.finished:
                started = time.perf_counter()
                stop = self.step(data, window)
                p.seconds += time.perf_counter() - started
                self.screen.at_step(p.step, s.steps)
                if p.step % s.log_every == 0 or p.step == s.steps:
                    self.report(log, window, data.waited)
                self.keep_history()
                better = False
                if p.step % s.validate_every == 0 or p.step == s.steps:
                    better = self.validate(log, on_best)
                if p.step % s.checkpoint_every == 0 or better or self.finished or stop:
                    self.save()  # after a new best, too: best/ never runs ahead of the checkpoints
                if stop and not self.finished:
                    return False
            return True
        finally:
            data.close()

    def trial(self, seconds: float, whole: bool, clock: Callable[[], float]) -> Speed:
        """Measure the speed by training for about `seconds` of `clock`; the weights are useless afterwards.

        With `whole`, steps with R-Drop and the scoring of validation pairs are measured too.
        """
        units, step = self._run_for(seconds, clock)
        if not whole:
            return Speed(units / step, step, step)
        r_drop_step = step
        if self.settings.r_drop:
            self.progress.step = math.ceil(self.optimizer_step.r_drop_begins)
            r_drop_step = self._run_for(seconds / 2, clock)[1]
        with self.evaluating() as model:
            validation, scoring = (self._seconds_per_pair(model, quick, clock) for quick in (True, False))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT * self.processes.world
        return Speed(units / step, step, r_drop_step, validation, scoring, memory)

    def _run_for(self, seconds: float, clock: Callable[[], float]) -> tuple[float, float]:
        """Train for about this long; returns units and seconds per step, not counting the warm-up steps."""
        first = self.progress.step
        data, started, before = Prefetch(self.task.batches(Position(), self.processes.rank, self.processes.world)), 0.0, 0
        self.stop_asked = False
        try:
            while not self.step(data, StepWindow(self.progress)):
                now = clock()
                if self.progress.step == first + TRIAL_WARMUP:
                    started, before = now, self.progress.tokens
                elif self.progress.step > first + TRIAL_WARMUP and now - started > seconds:
                    self.stop_asked = self.processes.first  # the next step tells the other processes
            steps = self.progress.step - first - TRIAL_WARMUP
            return (self.progress.tokens - before) / steps, (clock() - started) / steps
        finally:
            data.close()

    def _seconds_per_pair(self, model: nn.Module, quick: bool, clock: Callable[[], float]) -> float:
        """Seconds to score one held-out pair. The recipe's `decoding.max_extra` should be 0, because an untrained model never
        stops writing."""
        self.task.score(model, self.task.valid[: self.processes.world], self.processes, quick)
        some, started = self.task.valid[:TRIAL_PAIRS], clock()
        self.task.score(model, some, self.processes, quick)
        return (clock() - started) / len(some)

    def step(self, data: Batches, window: StepWindow) -> bool:
        """One optimizer step; returns whether someone asked to stop."""
        sums = self.optimizer_step.take(data, self.progress, self.stop_asked)
        if sums.usable:
            window.add(sums.loss, sums.nll, sums.tokens, sums.norm)
        return sums.stop

    # Reporting

    def report(self, log: MetricsLog | None, window: StepWindow, waited: float) -> None:
        """Log the statistics of the steps since the last report."""
        p = self.progress
        values = window.close(p, waited)
        if log is not None:
            rate = self.optimizer_step.learning_rate(p.step)
            extra = {"learning_rate": rate, "epoch": p.epoch, "tokens": p.tokens, "skipped": p.skipped}
            log.write("train", p.step, {**values, **extra, "seconds": round(p.seconds, 3)})
        left = values["seconds_per_step"] * (self.settings.steps - p.step)
        r_drop_begins = self.optimizer_step.r_drop_begins
        if self.settings.r_drop and p.step < r_drop_begins:  # then a step costs twice
            left += values["seconds_per_step"] * (self.settings.steps - r_drop_begins)
        self.screen.report(p.step, self.settings.steps, values["nll"], values["tokens_per_second"], self.task.unit, left)

    def validate(self, log: MetricsLog | None, on_best: Callable[[Scores], None]) -> bool:
        """Score the model on held-out examples, and remember whether it is the best so far."""
        p, metric = self.progress, self.settings.metric
        with self.evaluating() as model:
            scores = self.task.validate(model, self.processes)
            score = ranking(scores, metric)
            better = p.best is None or score > p.best
            # A model that is better only by a tie-breaker is kept, but does not reset the patience.
            p.stale = 0 if p.best is None or score[0] > p.best[0] else p.stale + 1
            if better:
                p.best, p.best_step = score, p.step
                if self.processes.first:
                    on_best(scores)
        if log is not None:
            samples = [{name: text[:LOGGED] for name, text in sample.items()} for sample in scores["samples"]]
            log.write("valid", p.step, {**scores, "samples": samples})
        how = self.task.describe_search(quick=True)
        name = f"validation ({how})" if how else "validation"
        self.screen.say(f"step {p.step:,}  {name}: {one_line(scores)}{'  (best)' if better else ''}")
        for sample in scores["samples"][:2]:
            self.screen.say(f"    {on_a_line(sample['input'])}  →  {on_a_line(sample['output'])}")
        return better

    @contextmanager
    def evaluating(self) -> Iterator[nn.Module]:
        """Inside the block, the model to validate and save: with the running mean of the weights if there is one."""
        with self.weights.averaged():
            self.weights.fill(self.eval_model)
            yield self.eval_model

    # Ending

    def set_final_weights(self) -> str:
        """Set the weights of the final model; returns a description of them."""
        if self.settings.ema:
            self.weights.swap_mean()
            what = "running mean of the weights"
        else:
            used = self.average_last()
            what = f"mean of the last {used} checkpoints" if used > 1 else "weights of the last step"
        self.weights.fill(self.eval_model)
        return what

    def average_last(self) -> int:
        """Set the weights to the mean of the last scheduled checkpoints; returns how many there were."""
        wanted = set(self.scheduled()[-self.settings.average :])
        mine = [path for step, path in list_checkpoints(self.folder) if step in wanted]
        mean, used = mean_weights(self.processes.gather(mine)[0], self.screen.say)
        if mean is not None and used > 1:
            self.weights.load({"weights": mean}, self.weights.updates)
        return used


def on_a_line(text: str, longest: int = 100) -> str:
    """A text without line breaks, truncated to fit on the screen."""
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[:longest]}…"
