"""What happened, for people and programs: `metrics.jsonl` and TensorBoard events."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class MetricsLog:
    """Appends one JSON object a line; on resuming, what lies beyond the checkpoint is taken back first."""

    def __init__(self, run: Path, step: int) -> None:
        from tensorboardX import SummaryWriter

        self.path = run / "metrics.jsonl"
        self._take_back(step)
        self.file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115
        self.events = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1 if step else None, flush_secs=10)

    def _take_back(self, step: int) -> None:
        kept = [json.dumps(entry, ensure_ascii=False) + "\n" for entry in read_metrics(self.path) if entry["step"] <= step]
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text("".join(kept), encoding="utf-8")
        os.replace(temporary, self.path)

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """One entry; numbers also go to TensorBoard, as kind/name."""
        self.file.write(json.dumps({"kind": kind, "step": step, **values}, ensure_ascii=False) + "\n")
        self.file.flush()
        for name, value in values.items():
            if isinstance(value, int | float):
                self.events.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        self.file.close()
        self.events.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Every whole entry of a metrics.jsonl; a last line cut short by a kill is left out."""
    entries = []
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and "step" in entry:
                entries.append(entry)
    return entries
