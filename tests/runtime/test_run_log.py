"""metrics.jsonl and TensorBoard events, when all is well and when the disk is full."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from heedful.runtime.run_log import MetricsLog, read_metrics


def test_what_lies_beyond_the_checkpoint_is_taken_back_in_both(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, 0)
    for step in (1, 2, 3):
        log.write("train", step, {"loss": 1.0 / step, "note": "text stays in the file"})
    log.close()
    again = MetricsLog(tmp_path, 2)
    again.write("train", 3, {"loss": 9.0})
    again.close()
    assert [(e["step"], e["loss"]) for e in read_metrics(tmp_path / "metrics.jsonl")] == [(1, 1.0), (2, 0.5), (3, 9.0)]
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(1, 1.0), (2, 0.5), (3, 9.0)]


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"kind": "train", "step": 1, "time": 0}\n{"kind": "tra')
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == 1


def test_what_is_not_a_number_is_written_as_strict_json(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, 0)
    log.write("train", 1, {"loss": float("nan")})
    log.close()
    assert json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=lambda name: 1 / 0)["loss"] is None


def test_a_full_disk_is_an_error_here_and_now_not_a_hang(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path; from heedful.runtime.run_log import MetricsLog\n"
        "log = MetricsLog(Path(sys.argv[1]), 0)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "for step in range(1000): log.write('train', step, {'loss': 1.0})"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "OSError: [Errno 27]" in done.stderr
