"""The log of a run: `metrics.jsonl`, and the same numbers as TensorBoard events."""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from heedful.runtime.files import finite, write_text
from heedful.settings import JsonObject

Entry: TypeAlias = JsonObject  # a line of metrics.jsonl: `kind`, `step`, `time` and values by name


class MetricsLog:
    """Appends one JSON object per line, and the same numbers as TensorBoard events.

    A resumed run drops the entries after its checkpoint, and writes the events again from those that remain.
    """

    def __init__(self, run: Path, step: int) -> None:
        # Not tensorboardX's SummaryWriter: it writes in a thread, so `flush` may miss events that are still queued, and once
        # that thread has died of a full disk, adding events blocks forever. RecordWriter writes at once and raises.
        from tensorboardX import RecordWriter
        from tensorboardX.proto.event_pb2 import Event

        path = run / "metrics.jsonl"
        kept = [entry for entry in read_metrics(path) if entry["step"] <= step]
        write_text(path, "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in kept))
        self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115  # `close` closes it
        shutil.rmtree(run / "tensorboard", ignore_errors=True)
        (run / "tensorboard").mkdir()
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}"
        self.events = RecordWriter(str(run / "tensorboard" / name))
        self.events.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        for entry in kept:
            self._add_event(entry)
        self.events.flush()

    def write(self, kind: str, step: int, values: Mapping[str, object]) -> None:
        """Append an entry; its numbers go to TensorBoard as kind/name."""
        numbers = {name: finite(value) for name, value in values.items()}
        entry: Entry = {"kind": kind, "step": step, "time": round(time.time(), 3), **numbers}
        self.file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        self.file.flush()
        self._add_event(entry)
        self.events.flush()

    def _add_event(self, entry: Entry) -> None:
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        numbers = {
            name: value for name, value in entry.items() if isinstance(value, int | float) and name not in ("step", "time")
        }
        values = [Summary.Value(tag=f"{entry['kind']}/{name}", simple_value=value) for name, value in numbers.items()]
        event = Event(wall_time=entry.get("time", 0.0), step=entry["step"], summary=Summary(value=values))
        self.events.write(event.SerializeToString())

    def close(self) -> None:
        self.file.close()
        self.events.close()


def read_metrics(path: Path) -> list[Entry]:
    """Every complete entry of a metrics.jsonl; a last line cut short by a kill is left out."""
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
