"""The training loop (Section 5): steps, validations and checkpoints, with exact resume.

Every random number of a step is a function of (seed, step, rank) and the order of the data of (seed, epoch). So a run
resumed from a checkpoint does exactly what it would have done without the interruption.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from heedful.data.batches import Position, Prefetch
from heedful.data.collation import TensorBatch
from heedful.errors import HeedfulError
from heedful.evaluation.score_names import Scores, one_line, ranking
from heedful.recipes import Recipe
from heedful.runtime.cores import cores
from heedful.runtime.device import keep_few_kernels, keep_freed_memory, pick_device, wants_bf16
from heedful.runtime.processes import Processes, explained
from heedful.runtime.run_log import MetricsLog
from heedful.runtime.screen import Screen
from heedful.tasks.task import AnyTask
from heedful.training.checkpoint import (
    DamagedCheckpoint,
    Progress,
    list_checkpoints,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from heedful.training.flat_weights import FlatWeights
from heedful.training.memory_check import check_memory
from heedful.training.schedule import learning_rate
from heedful.training.weight_history import keep_weights
from heedful.training.weights import AdamSettings, Weights

Batches: TypeAlias = Iterator[tuple[Position, TensorBatch | None]]

WARM = 2  # steps before a trial begins to count
# A CPU trains on a batch in pieces, so that only the activations of one piece are kept for the backward pass.
PIECE = 1024  # positions per piece, at least
PIECE_NUMBERS = 1 << 18  # narrow models take longer pieces: PIECE_NUMBERS / d_model positions
PERSISTENT = 20  # steps in a row without a finite loss before giving up


class Trainer:
    """Trains the model of a task inside a run directory, as one of several processes."""

    def __init__(self, task: AnyTask, recipe: Recipe, run: Path, processes: Processes, screen: Screen) -> None:
        self.task, self.recipe, self.run, self.processes, self.screen = task, recipe, run, processes, screen
        self.settings = s = recipe.training
        self.device = pick_device(s.device)
        bf16 = wants_bf16(s.precision, self.device, task.config.d_model)
        self.precision = "bf16" if bf16 else "float32"
        if self.device.type == "cpu":
            keep_freed_memory()
            if bf16:
                keep_few_kernels()
            if processes.here > 1:
                torch.set_num_threads(max(1, cores() // processes.here))
        check_memory(task.config, self.device, processes.world if s.shard else 1)
        self.model = model = task.build_model().to(self.device)
        self.loss: Callable[..., tuple[Tensor, Tensor, int]] = lambda batch, **extra: task.loss(model, batch, **extra)
        self.weights: Weights
        adam: AdamSettings = {"betas": (s.beta1, s.beta2), "eps": s.epsilon}
        if s.shard and processes.world > 1:
            from heedful.training.sharded_weights import ShardedLoss, ShardedWeights  # slow to import, rarely needed

            self.judged_model = task.build_model().to(self.device)  # whole, for validations; it has no gradients
            self.loss = root = ShardedLoss(self.model, task.loss)
            self.weights = ShardedWeights(root, processes, adam, s.ema)
        else:
            self.judged_model = self.model
            self.weights = FlatWeights(self.model, processes, adam, s.ema, s.optimizer == "muon")
        self.autocast = torch.autocast(self.device.type, torch.bfloat16, enabled=bf16)
        self.progress = Progress()
        self.folder = run / "checkpoints"
        self.stop_asked = False

    def ask_to_stop(self) -> None:
        """Let the present step finish, save a checkpoint and return from `train`."""
        self.stop_asked = True

    # Continuing

    def resume(self) -> bool:
        """Load the newest checkpoint that is intact; damaged ones are named and skipped."""
        choice: tuple[int, Path] | None = None
        if self.processes.first:
            for step, path in reversed(list_checkpoints(self.folder)):
                try:
                    load_checkpoint(path)
                    choice = (step, path)
                    break
                except DamagedCheckpoint as error:
                    self.screen.say(f"{error}; using an earlier one")
        choice = self.processes.gather(choice)[0]
        if choice is None:
            return False
        tensors, layout, self.progress = load_checkpoint(choice[1])
        if layout != self.weights.layout:
            raise HeedfulError(f"{choice[1]} belongs to a model other than this recipe's")
        self.weights.load(tensors, self.progress.step - self.progress.skipped)
        return True

    def save(self) -> None:
        """Write a checkpoint and delete those no longer needed."""
        vectors = self.weights.vectors()
        if not self.processes.first:
            return
        save_checkpoint(self.folder, vectors, self.weights.layout, self.progress)
        prune_checkpoints(self.folder, {self.progress.step, *self.scheduled()[-max(2, self.settings.average) :]})

    def look_back(self) -> None:
        """Keep the weights of this step for good, if it is the time for it."""
        if not self.settings.history or self.progress.step % self.settings.history:
            return
        with self.weights.judged():
            self.weights.fill(self.judged_model)
            if self.processes.first:
                keep_weights(self.folder.parent, self.progress.step, self.judged_model)

    def scheduled(self) -> list[int]:
        """Steps up to now whose checkpoints were scheduled; one made by Ctrl-C was not, and is never averaged."""
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
            self.look_back()
            while not self.finished:
                started = time.perf_counter()
                stop = self.step(data, window)
                p.seconds += time.perf_counter() - started
                self.screen.at_step(p.step, s.steps)
                if p.step % s.log_every == 0 or p.step == s.steps:
                    self.report(log, window, data)
                self.look_back()
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

    def trial(self, seconds: float) -> float:
        """Units per second, measured by training for about so long; the weights are useless afterwards."""
        data, started, before = Prefetch(self.task.batches(Position(), self.processes.rank, self.processes.world)), 0.0, 0
        try:
            while not self.step(data, StepWindow(self.progress)):
                now = time.perf_counter()
                if self.progress.step == WARM:
                    started, before = now, self.progress.tokens
                elif self.progress.step > WARM and now - started > seconds:
                    self.stop_asked = self.processes.first  # the next step passes it on to the others
            return (self.progress.tokens - before) / (time.perf_counter() - started)
        finally:
            data.close()

    def step(self, data: Batches, window: StepWindow) -> bool:
        """One optimizer step over `accumulate` batches; returns whether someone asked to stop."""
        s, p, weights = self.settings, self.progress, self.weights
        seed = np.random.SeedSequence([s.seed, p.step, self.processes.rank]).generate_state(1, np.uint64)[0]
        torch.manual_seed(int(seed))
        self.model.train()
        weights.clear()
        extra = {"r_drop": s.r_drop} if s.r_drop and p.step >= self.r_drop_begins else {}
        numbers = torch.zeros(4, device=self.device)  # loss, negative log-likelihood, tokens, and whether to stop
        position = Position(p.epoch, p.batch)
        for _ in range(s.accumulate):
            position, batch = next(data)
            if batch is None and not s.shard:
                continue
            for piece in self.pieces(self.spare if batch is None else batch):
                with explained():  # sharded weights communicate inside the layers
                    with self.autocast:
                        loss, nll, tokens = self.loss(piece.to(self.device), **extra)
                    if batch is None:  # every process must take part in gathering the weights, with a loss of zero
                        loss, nll, tokens = 0.0 * loss, 0.0 * nll, 0
                    loss.backward()
                numbers[:3] += torch.stack([loss.detach(), nll.detach(), loss.new_tensor(tokens)])
        numbers[3] = float(self.stop_asked)
        total, nll_total, count, stop = weights.reduce(numbers)

        p.step += 1
        p.epoch, p.batch = position.epoch, position.batch
        norm = weights.norm / max(1.0, count)
        if math.isfinite(total) and math.isfinite(norm) and count:
            p.skipped_in_row = 0
            p.tokens += int(count)
            shrink = min(1.0, s.clip / (norm + 1e-6)) if s.clip else 1.0
            with self.autocast:  # for Muon's products
                # The mean over the tokens of all processes, clipped.
                weights.update(self.rate, shrink / count, s.weight_decay * self.rate)
            window.add(total, nll_total, count, norm)
        else:
            p.skipped += 1
            p.skipped_in_row += 1
            if p.skipped_in_row >= PERSISTENT:
                advice = "" if s.clip else " or set training.clip=1"
                raise HeedfulError(
                    f"the loss has not been a finite number for {PERSISTENT} steps (step {p.step}); "
                    f"lower training.learning_rate (now {self.rate:.2g}){advice}, in another --run"
                )
        return stop > 0

    def pieces(self, batch: TensorBatch) -> list[TensorBatch]:
        """A batch in pieces, whose gradients add up to its own; whole on a GPU, and with sharded weights, which each piece would
        gather again."""
        if self.device.type != "cpu" or self.settings.shard:
            return [batch]
        return batch.pieces(max(PIECE, PIECE_NUMBERS // self.model.config.d_model))

    @cached_property
    def spare(self) -> TensorBatch:
        """A batch for a process whose share of a batch is empty."""
        return next(batch for _, batch in self.task.batches(Position(), 0, 1) if batch is not None)

    @property
    def r_drop_begins(self) -> float:
        """The step at which R-Drop begins, if it is used."""
        return self.settings.r_drop_from * self.settings.steps

    @property
    def rate(self) -> float:
        """The learning rate of the present step."""
        s = self.settings
        return learning_rate(self.progress.step, s.schedule, s.learning_rate, s.warmup, s.steps, self.model.config.d_model)

    # Reporting

    def report(self, log: MetricsLog | None, window: StepWindow, data: Prefetch[tuple[Position, TensorBatch | None]]) -> None:
        """Log the steps since the last report."""
        p = self.progress
        values = window.close(p, data.waited)
        if log is not None:
            extra = {"learning_rate": self.rate, "epoch": p.epoch, "tokens": p.tokens, "skipped": p.skipped}
            log.write("train", p.step, {**values, **extra, "seconds": round(p.seconds, 3)})
        left = values["seconds_per_step"] * (self.settings.steps - p.step)
        if self.settings.r_drop and p.step < self.r_drop_begins:  # then a step costs twice
            left += values["seconds_per_step"] * (self.settings.steps - self.r_drop_begins)
        self.screen.report(p.step, self.settings.steps, values["nll"], values["tokens_per_second"], self.task.unit, left)

    def validate(self, log: MetricsLog | None, on_best: Callable[[Scores], None]) -> bool:
        """Score the model on held-out examples, and remember whether it is the best so far."""
        p, metric = self.progress, self.settings.metric
        with self.judging() as model:
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
            log.write("valid", p.step, scores)
        how = self.task.search_words(quick=True)
        name = f"validation ({how})" if how else "validation"
        self.screen.say(f"step {p.step:,}  {name}: {one_line(scores)}{'  (best)' if better else ''}")
        for sample in scores["samples"][:2]:
            self.screen.say(f"    {on_a_line(sample['input'])}  →  {on_a_line(sample['output'])}")
        return better

    @contextmanager
    def judging(self) -> Iterator[Any]:
        """The model that is validated and kept, with the right weights inside the block."""
        with self.weights.judged():
            self.weights.fill(self.judged_model)
            yield self.judged_model

    # Ending

    def settle(self) -> str:
        """Give the validated model its final weights; returns a description of them."""
        if self.settings.ema:
            self.weights.swap_mean()
            what = "running mean of the weights"
        else:
            used = self.average_last()
            what = f"mean of the last {used} checkpoints" if used > 1 else "weights of the last step"
        self.weights.fill(self.judged_model)
        return what

    def average_last(self) -> int:
        """Set the weights to the mean of the last scheduled checkpoints; returns how many there were."""
        wanted = set(self.scheduled()[-self.settings.average :])
        mine = [(step, path) for step, path in list_checkpoints(self.folder) if step in wanted]
        total: Tensor | None = None
        used = 0
        for _, path in self.processes.gather(mine)[0]:
            try:
                weights = load_checkpoint(path)[0]["weights"].double()
            except DamagedCheckpoint as error:
                self.screen.say(f"{error}; it is left out of the average")
                continue
            total = weights if total is None else total + weights
            used += 1
        if total is not None and used > 1:
            self.weights.load({"weights": (total / used).float()}, self.weights.updates)
        return used


def on_a_line(text: str, longest: int = 100) -> str:
    """A text without line breaks, cut where it would fill the screen."""
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[:longest]}…"


class StepWindow:
    """Sums over the steps since the last report; the time of validations and checkpoints does not count."""

    def __init__(self, progress: Progress) -> None:
        self.begin(progress, 0.0)

    def begin(self, progress: Progress, waited: float) -> None:
        self.first, self.started, self.waited = progress.step, progress.seconds, waited
        self.loss = self.nll = self.tokens = self.norm = 0.0

    def add(self, loss: float, nll: float, tokens: float, norm: float) -> None:
        self.loss, self.nll, self.tokens, self.norm = self.loss + loss, self.nll + nll, self.tokens + tokens, norm

    def close(self, progress: Progress, waited: float) -> dict[str, float]:
        """The means of the window (NaN when every step was skipped); a new window begins."""
        seconds = max(1e-9, progress.seconds - self.started)
        values = {
            "loss": self.loss / self.tokens if self.tokens else math.nan,
            "nll": self.nll / self.tokens if self.tokens else math.nan,
            "gradient_norm": self.norm,
            "tokens_per_second": self.tokens / seconds,
            "seconds_per_step": seconds / max(1, progress.step - self.first),
            "waiting_for_data": (waited - self.waited) / seconds,
        }
        self.begin(progress, waited)
        return values
