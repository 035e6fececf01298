"""What happened, for people and programs: `metrics.jsonl` and TensorBoard events."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from heedful.runtime.files import finite, write_text


class MetricsLog:
    """Appends one JSON object a line, and the same numbers as TensorBoard events.

    On resuming, what lies beyond the checkpoint is taken back, and the events are written anew from what is left.
    """

    def __init__(self, run: Path, step: int) -> None:
        # Written here and now: the library's own writer queues them for a thread, where a full disk would go unseen.
        from tensorboardX.event_file_writer import EventsWriter

        path = run / "metrics.jsonl"
        kept = [entry for entry in read_metrics(path) if entry["step"] <= step]
        write_text(path, "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in kept))
        self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115
        shutil.rmtree(run / "tensorboard", ignore_errors=True)
        (run / "tensorboard").mkdir()
        self.events = EventsWriter(str(run / "tensorboard" / "events"))
        for entry in kept:
            self._add_event(entry)
        self.events.flush()

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """One entry; its numbers go to TensorBoard as kind/name."""
        entry: dict[str, Any] = {"kind": kind, "step": step, "time": round(time.time(), 3), **finite(values)}
        self.file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        self.file.flush()
        self._add_event(entry)
        self.events.flush()

    def _add_event(self, entry: dict[str, Any]) -> None:
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        numbers = {
            name: value for name, value in entry.items() if isinstance(value, int | float) and name not in ("step", "time")
        }
        values = [Summary.Value(tag=f"{entry['kind']}/{name}", simple_value=value) for name, value in numbers.items()]
        self.events.write_event(Event(wall_time=entry.get("time", 0.0), step=entry["step"], summary=Summary(value=values)))

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
