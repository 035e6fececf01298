"""`heedful complexity` as a command: its tables and files, wrong requests, Ctrl-C."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from conftest import Run

SMALL = (
    "--layers full,gru,window --lengths 16,32 --width 8 --widths 8,16 --length 16 --heads 2 --path-lengths 6,12 "
    "--path-window 2 --rounds 1"
).split()


def test_the_tables_and_every_file_are_written(run: Run, tmp_path: Path) -> None:
    files = [tmp_path / f"found.{kind}" for kind in ("png", "csv", "html")]
    out, _ = run("complexity", *SMALL, *(word for file in files for word in (f"--{file.suffix[1:]}", file)))
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert rows["gru"][-4:] == ["O(L)", "6,", "12", "O(L)"]  # the second table comes last
    assert rows["window"][-4:] == ["O(1)", "3,", "6", "O(L/r)"]
    assert rows["full"][-4:] == ["O(1)", "1,", "1", "O(1)"]
    assert "time in L" in out
    assert "MB at L=32" in out
    with Image.open(files[0]) as picture:
        assert picture.width > 1000
    lines = list(csv.DictReader(files[1].open(encoding="utf-8")))
    assert {(line["layer"], line["length"]) for line in lines if line["seconds"]} >= {("full", "16"), ("window", "32")}
    page = files[2].read_text(encoding="utf-8")
    assert page.count("<tr>") == 2 * (1 + 3)
    assert "<svg" in page
    assert set(re.findall(r"https?://[\w.]+", page)) <= {"http://www.w3.org"}, "it needs nothing from elsewhere"


def test_json_is_alone_on_standard_output(run: Run) -> None:
    out, _ = run("complexity", *SMALL, "--json")
    found = json.loads(out)
    assert [layer["layer"] for layer in found["layers"]] == ["full", "gru", "window"]
    assert found["layers"][1]["longest_path"] == {"6": 6, "12": 12}
    assert all(cost["seconds"] > 0 for layer in found["layers"] for cost in layer["costs"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--layers", "ful"), "--layers: there is no layer 'ful'; did you mean 'full'?"),
        (("--lengths", "1k"), "--lengths must be whole numbers separated by commas, such as 512,1024, not '1k'"),
        (("--widths", "6"), "a width of 6 cannot be split into 4 heads"),
        (("--window", "0"), "windows must be from 1 to 10,000,000, not 0"),
        (("--csv", "nowhere/a.csv"), "there is no directory nowhere to write a.csv into"),
    ],
)
def test_a_wrong_request_is_one_sentence(wrong: tuple[str, str], message: str, run: Run) -> None:
    out, err = run("complexity", *wrong, code=1 if wrong[0] == "--csv" else 2)
    assert (out, err) == ("", f"error: {message}\n")


def test_a_missing_matplotlib_is_told_before_anything_is_measured(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    _, err = run("complexity", *SMALL, "--png", "found.png", code=1)
    assert err == "error: pictures need matplotlib; install it with: pip install 'heedful[plots]'\n"


def wait_for_child(pid: int) -> None:
    """Wait until a process has started another one."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for _ in range(6000):
        if children.read_text():
            return
        time.sleep(0.01)
    pytest.fail("no measurement was started")


def test_ctrl_c_prints_what_was_measured_until_then() -> None:
    much = "--layers convolution,gru --path-lengths 8 --lengths 64,4096 --rounds 1000 --seconds 1000000 --json".split()
    process = subprocess.Popen(
        [sys.executable, "-m", "heedful", "complexity", *much],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background shell has it ignored
    )
    try:
        assert process.stderr is not None
        assert "measurements; Ctrl-C stops" in process.stderr.readline()
        wait_for_child(process.pid)  # the first measurement
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGINT
    assert json.loads(out)["layers"][0]["layer"] == "convolution"
    assert err.splitlines()[-1] == "stopped by Ctrl-C: these are the results so far"
