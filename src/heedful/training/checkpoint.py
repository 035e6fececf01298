"""Checkpoints that are complete or absent: written to a temporary file, synced, renamed, and verified when read.

A checkpoint is one safetensors file: the weights and the two moments of Adam as flat vectors, and the progress of
training in its header. Random numbers and data order are functions of the seed and the step, so they need no state.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from heedful.errors import HeedfulError
from heedful.runtime.files import disk_is_full, write_whole

NAME = re.compile(r"step-(\d{9})\.safetensors")


@dataclass
class Progress:
    """Where training stands."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches taken of this epoch
    tokens: int = 0  # target tokens trained on
    seconds: float = 0.0  # spent training
    best: list[float] | None = None  # the best validation, as `ranking` compares it
    best_step: int = 0
    stale: int = 0  # validations since the metric last improved
    skipped: int = 0  # steps skipped because the loss was not finite
    skipped_in_row: int = 0
    library: str = ""  # which library computes large matrix products; another one rounds differently


class DamagedCheckpoint(Exception):
    """The file is cut short or its content does not match its checksum."""


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step lives."""
    return folder / f"step-{step:09d}.safetensors"


def list_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """(step, file) of every checkpoint, oldest first."""
    found = [(int(match[1]), path) for path in folder.glob("step-*") if (match := NAME.fullmatch(path.name))]
    return sorted(found)


def checksum(tensors: dict[str, Tensor], header: str) -> str:
    """A hash of everything in a checkpoint."""
    digest = hashlib.blake2b(header.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], layout: dict[str, list[int]], progress: Progress) -> Path:
    """Write the checkpoint of `progress.step`; until it is complete, the previous one stays the newest."""
    folder.mkdir(parents=True, exist_ok=True)
    path = checkpoint_path(folder, progress.step)
    header = json.dumps({"layout": layout, "progress": asdict(progress)})
    on_cpu = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
    metadata = {"header": header, "checksum": checksum(on_cpu, header)}
    try:
        write_whole(path, lambda temporary: save_file(on_cpu, temporary, metadata))
    except (OSError, SafetensorError) as error:
        if not disk_is_full(error):
            raise
        kept = list_checkpoints(folder)
        last = f"the last good checkpoint, {kept[-1][1]}, is intact" if kept else "there is no earlier checkpoint"
        raise HeedfulError(
            f"the disk is full: the checkpoint of step {progress.step} was not written; {last}. "
            "Free some space and run the same command again to continue"
        ) from error
    return path


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, list[int]], Progress]:
    """Tensors, layout and progress of a checkpoint, or DamagedCheckpoint."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            names: list[str] = file.keys()
            tensors = {name: file.get_tensor(name).clone() for name in names}  # cloned: nothing depends on the file any more
        header = metadata["header"]
        if checksum(tensors, header) != metadata["checksum"]:
            raise DamagedCheckpoint(f"{path} is damaged: its checksum does not match")
        content = json.loads(header)
        progress = Progress(**content["progress"])
        if isinstance(progress.best, float):  # the format of heedful 0.1
            progress.best = [progress.best]
        return tensors, content["layout"], progress
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise DamagedCheckpoint(f"{path} is damaged: {error}") from error


def newest_intact(folder: Path, report: Callable[[str], None]) -> Path | None:
    """The newest checkpoint that can be read; damaged ones are reported and skipped."""
    for _, path in reversed(list_checkpoints(folder)):
        try:
            load_checkpoint(path)
            return path
        except DamagedCheckpoint as error:
            report(f"{error}; using an earlier one")
    return None


def prune_checkpoints(folder: Path, keep: set[int]) -> None:
    """Delete the checkpoints of every other step."""
    for step, path in list_checkpoints(folder):
        if step not in keep:
            path.unlink()
