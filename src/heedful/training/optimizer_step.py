"""One optimizer step (Section 5): gradients of several batches added up, summed over all processes, clipped and applied.

Every random number of a step is a function of (seed, step, rank).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from heedful.data.batches import Position
from heedful.data.collation import TensorBatch
from heedful.errors import HeedfulError
from heedful.recipes.settings import TrainingSettings
from heedful.runtime.cores import cores
from heedful.runtime.device import keep_few_kernels, keep_freed_memory, pick_device, wants_bf16
from heedful.runtime.processes import Processes, reporting_lost_processes
from heedful.tasks.task import AnyTask
from heedful.training.checkpoint import Progress
from heedful.training.flat_weights import FlatWeights
from heedful.training.memory_check import check_memory
from heedful.training.schedule import learning_rate
from heedful.training.weights import AdamSettings, Weights

Batches: TypeAlias = Iterator[tuple[Position, TensorBatch | None]]

# A CPU trains on a batch in pieces, so that only the activations of one piece are kept for the backward pass.
PIECE = 1024  # positions per piece, at least
PIECE_NUMBERS = 1 << 18  # narrow models take longer pieces: PIECE_NUMBERS / d_model positions
MOST_SKIPPED = 20  # steps in a row without a finite loss before giving up


class StepSums(NamedTuple):
    """The numbers of one step, summed over the tokens of all processes."""

    loss: float
    nll: float  # negative log-likelihood
    tokens: float
    norm: float  # of the mean gradient
    stop: bool  # whether any process was asked to stop

    @property
    def usable(self) -> bool:
        """Whether the weights can be updated with it; otherwise the step is skipped."""
        return math.isfinite(self.loss) and math.isfinite(self.norm) and self.tokens > 0


class OptimizerStep:
    """Holds the model being trained, its weights and their optimizer; each `take` is one step."""

    def __init__(self, task: AnyTask, settings: TrainingSettings, processes: Processes) -> None:
        self.task, self.settings, self.processes = task, settings, processes
        self.device = pick_device(settings.device)
        bf16 = wants_bf16(settings.precision, self.device, task.config.d_model)
        self.precision = "bf16" if bf16 else "float32"
        if self.device.type == "cpu":
            keep_freed_memory()
            keep_few_kernels()
            if processes.here > 1:
                torch.set_num_threads(max(1, cores() // processes.here))
        check_memory(task.config, self.device, processes.world if settings.shard else 1)
        self.model = model = task.build_model().to(self.device)
        self.loss: Callable[..., tuple[Tensor, Tensor, int]] = lambda batch, **extra: task.loss(model, batch, **extra)
        self.weights: Weights
        adam: AdamSettings = {"betas": (settings.beta1, settings.beta2), "eps": settings.epsilon}
        if settings.shard and processes.world > 1:
            from heedful.training.sharded_weights import ShardedLoss, ShardedWeights  # slow to import, rarely needed

            self.eval_model = task.build_model().to(self.device)  # whole, for validations; it has no gradients
            self.loss = root = ShardedLoss(self.model, task.loss)
            self.weights = ShardedWeights(root, processes, adam, settings.ema, settings.optimizer == "muon")
        else:
            self.eval_model = self.model
            self.weights = FlatWeights(self.model, processes, adam, settings.ema, settings.optimizer == "muon")
        self.autocast = torch.autocast(self.device.type, torch.bfloat16, enabled=bf16)

    def take(self, batches: Batches, progress: Progress, stop: bool = False) -> StepSums:
        """Train on the next `accumulate` batches and advance `progress`.

        If `stop` is true in any process, the sums say so to all of them.
        """
        s = self.settings
        seed = np.random.SeedSequence([s.seed, progress.step, self.processes.rank]).generate_state(1, np.uint64)[0]
        torch.manual_seed(int(seed))
        self.model.train()
        self.weights.clear()
        r_drop = s.r_drop if progress.step >= self.r_drop_begins else 0.0
        numbers = torch.zeros(4, device=self.device)  # loss, negative log-likelihood, tokens, and whether to stop
        for _ in range(s.accumulate):
            position, batch = next(batches)
            if batch is not None or s.shard:
                numbers[:3] += self.gradients_of(batch, r_drop)
        numbers[3] = float(stop)
        loss, nll, tokens, stops = self.weights.reduce(numbers)
        sums = StepSums(loss, nll, tokens, self.weights.norm / max(1.0, tokens), stops > 0)

        progress.step += 1
        progress.epoch, progress.batch = position.epoch, position.batch
        if sums.usable:
            self._update(sums, progress)
        else:
            self._skip(progress)
        return sums

    def gradients_of(self, batch: TensorBatch | None, r_drop: float) -> Tensor:
        """Add the gradients of a batch to those of the step; returns its loss, negative log-likelihood and tokens.

        Without a batch the gradients are zero: with sharded weights every process must take part in gathering them.
        """
        extra = {"r_drop": r_drop} if r_drop else {}
        sums = torch.zeros(3, device=self.device)
        for piece in self.pieces(self.spare if batch is None else batch):
            with reporting_lost_processes():  # sharded weights communicate inside the layers
                with self.autocast:
                    loss, nll, tokens = self.loss(piece.to(self.device), **extra)
                if batch is None:
                    loss, nll, tokens = 0.0 * loss, 0.0 * nll, 0
                loss.backward()
            sums += torch.stack([loss.detach(), nll.detach(), loss.new_tensor(tokens)])
        return sums

    def _update(self, sums: StepSums, progress: Progress) -> None:
        s, rate = self.settings, self.learning_rate(progress.step)
        progress.skipped_in_row = 0
        progress.tokens += int(sums.tokens)
        shrink = min(1.0, s.clip / (sums.norm + 1e-6)) if s.clip else 1.0
        with self.autocast:  # for Muon's products
            # The mean over the tokens of all processes, clipped.
            self.weights.update(rate, shrink / sums.tokens, s.weight_decay * rate)

    def _skip(self, progress: Progress) -> None:
        """Skip the update; raise an error if that has happened many times in a row."""
        progress.skipped += 1
        progress.skipped_in_row += 1
        if progress.skipped_in_row >= MOST_SKIPPED:
            advice = "" if self.settings.clip else " or set training.clip=1"
            raise HeedfulError(
                f"the loss has not been a finite number for {MOST_SKIPPED} steps (step {progress.step}); "
                f"lower training.learning_rate (now {self.learning_rate(progress.step):.2g}){advice}, in another --run"
            )

    def pieces(self, batch: TensorBatch) -> list[TensorBatch]:
        """Split a batch into pieces whose gradients add up to its own. On a GPU a batch stays whole, and with sharded weights
        too, because every piece would gather them again."""
        if self.device.type != "cpu" or self.settings.shard:
            return [batch]
        return batch.pieces(max(PIECE, PIECE_NUMBERS // self.model.config.d_model))

    @cached_property
    def spare(self) -> TensorBatch:
        """A batch to run when this process's share of a batch is empty; its gradient is multiplied by zero."""
        return next(batch for _, batch in self.task.batches(Position(), 0, 1) if batch is not None)

    @property
    def r_drop_begins(self) -> float:
        """The step at which R-Drop begins, if it is used."""
        return self.settings.r_drop_from * self.settings.steps

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step."""
        s = self.settings
        return learning_rate(step, s.schedule, s.learning_rate, s.warmup, s.steps, self.model.config.d_model)
