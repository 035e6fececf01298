"""What is written is whole or not there, with the mode of an ordinary file; errors of the file system are sentences."""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from heedful.runtime.files import disk_is_full, os_error_sentence, whole_directory, write_text, write_whole


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """A disk on which larger files fail, which is the nearest to a full one that a test can have."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_every_file_has_the_mode_that_the_umask_gives(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "model.safetensors", lambda path: save_file({"a": torch.zeros(3)}, path))
        write_text(tmp_path / "config.json", "{}")
        (tmp_path / "ordinary").touch()
    finally:
        os.umask(before)
    assert {mode(path) for path in tmp_path.iterdir()} == {0o666 & ~umask}


@pytest.mark.parametrize("tensors", [True, False])
def test_a_file_that_cannot_be_written_leaves_the_old_one_and_names_it(tensors: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_text("old")
    with no_file_above(1000), pytest.raises(OSError, match="model") as caught:
        write_whole(path, lambda place: save_file({"a": torch.zeros(9999)}, place) if tensors else place.write_bytes(b"x" * 9999))
    assert caught.value.filename == str(path)
    assert disk_is_full(caught.value)
    assert "would be larger than the file system or a limit (ulimit -f) allows" in os_error_sentence(caught.value)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("model.safetensors", "old")]


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device"), None])
def test_a_directory_is_whole_or_as_it_was(exists: bool, error: BaseException | type | None, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    if exists:
        out.mkdir(parents=True)
    number = out.stat().st_ino if exists else 0
    try:
        with whole_directory(out) as temporary:
            write_text(temporary / "one", "1")
            (temporary / "folder").mkdir()
            write_text(temporary / "folder" / "two", "2")
            if error is not None:
                raise error
    except (KeyboardInterrupt, OSError):
        assert error is not None
        assert list((tmp_path / "new").rglob("*")) == ([out] if exists else [])
        assert exists == (tmp_path / "new").exists()
        return
    assert {path.relative_to(out).as_posix() for path in out.rglob("*")} == {"one", "folder", "folder/two"}
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert not exists or out.stat().st_ino == number


def test_what_a_killed_process_left_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / ".out.tmp").mkdir()
    (tmp_path / ".out.tmp" / "half").touch()
    with whole_directory(tmp_path / "out") as temporary:
        write_text(temporary / "one", "1")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "one"]


def test_an_error_in_a_directory_names_the_directory_that_was_asked_for(tmp_path: Path) -> None:
    with no_file_above(10), pytest.raises(OSError, match=r"out/config\.json"), whole_directory(tmp_path / "out") as temporary:
        write_text(temporary / "config.json", "x" * 100)
    assert list(tmp_path.iterdir()) == []


def test_real_errors_of_the_system_are_sentences(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").touch()
    for path, sentence in {
        tmp_path / "loop": "cannot be followed: its symbolic links lead in a circle",
        tmp_path / ("n" * 300): "of 3",
        tmp_path: "is a directory, where a file is needed",
        tmp_path / "file" / "x": "a part of its path is a file, not a directory",
        tmp_path / "nowhere": f"there is no {tmp_path}/nowhere",
    }.items():
        with pytest.raises(OSError) as caught:
            path.read_text()
        assert sentence in os_error_sentence(caught.value)


def test_every_other_error_is_a_sentence_too() -> None:
    for number in errno.errorcode:
        for error in (OSError(number, os.strerror(number)), OSError(number, os.strerror(number), b"\xff\xfe")):
            said = os_error_sentence(error)
            assert "Errno" not in said
            assert said.encode("utf-8")
    assert os_error_sentence(OSError()) == "the system refused: OSError"
    assert disk_is_full(SafetensorError("I/O error: No space left on device (os error 28)"))
    assert not disk_is_full(KeyboardInterrupt())
