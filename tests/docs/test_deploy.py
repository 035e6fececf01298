"""The page about serving and the files of deploy/ agree with the service: commands, options, numbers."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
from sandbox import blocks_of, commands_of

from heedful.cli.main import app
from heedful.serving.settings import ServeSettings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
UNIT = (DEPLOY / "heedful.service").read_text(encoding="utf-8")
NGINX = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
DEFAULTS = ServeSettings()
INSTRUCTIONS = {"FROM", "ARG", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
STOPPING = 10  # seconds beyond --grace, for the workers to end


def served(words: list[str]) -> tuple[list[str], ServeSettings]:
    """The models and settings of a `heedful serve` command, which fails as the command itself would."""
    assert Path(words[0]).name == "heedful"
    assert words[1] == "serve"
    command: Any = typer.main.get_command(app)
    values = dict(command.commands["serve"].make_context("serve", words[2:]).params)
    return values.pop("models"), ServeSettings(**values)


def unit_values(name: str) -> list[str]:
    """The values of a directive of the unit."""
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


def instructions() -> dict[str, list[str]]:
    """The instructions of the Dockerfile: name → arguments of each."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in filter(None, text.splitlines()):
        name, _, rest = line.partition(" ")
        found.setdefault(name, []).append(rest.strip())
    return found


def test_the_serve_commands_on_the_page_are_valid() -> None:
    found = 0
    for language, content in blocks_of(PAGE):
        if language == "python":
            compile(content, "serving.md", "exec")
            continue
        for command in commands_of(content):
            words = [word for word in shlex.split(command) if not word.startswith("HEEDFUL_API_KEYS=")]
            if words[:2] == ["heedful", "serve"]:
                assert served(words)[0], command
                found += 1
    assert found >= 5


def test_the_table_of_limits_has_every_limit_with_its_default() -> None:
    rows = re.findall(r"^\| [^|]+ \| `--([a-z-]+)` \| ([\d,]+)[^|]*\| [^|]+ \|$", PAGE, re.MULTILINE)
    said = {name.replace("-", "_"): float(value.replace(",", "")) for name, value in rows}
    without = {"port", "workers"}
    numbers = {
        field.name: float(field.default)
        for field in dataclasses.fields(ServeSettings)
        if isinstance(field.default, int | float) and not isinstance(field.default, bool) and field.name not in without
    }
    assert said == numbers


def test_every_option_of_the_page_exists() -> None:
    options = {f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(ServeSettings)}
    elsewhere = {"--json", "--init", "--stop-timeout", "--now"}  # of the verbs, docker and systemctl
    commands = "\n".join(content for language, content in blocks_of(PAGE) if language == "sh")
    named = set(re.findall(r"`(--[a-z-]+)", PAGE)) | set(re.findall(r"heedful serve .*?(--[a-z-]+)", commands))
    assert not named - options - elsewhere


def test_the_unit_starts_a_valid_command_and_waits_for_its_end() -> None:
    (start,) = unit_values("ExecStart")
    models, settings = served(shlex.split(start))
    assert models
    assert settings.grace == DEFAULTS.grace
    assert unit_values("TimeoutStopSec") == [f"{settings.grace + STOPPING:g}"]
    assert unit_values("ExecReload") == ["/bin/kill -HUP $MAINPID"]
    assert unit_values("KillSignal") == ["SIGTERM"]
    for name, value in {"DynamicUser": "yes", "ProtectSystem": "strict", "NoNewPrivileges": "yes"}.items():
        assert unit_values(name) == [value]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    (tmp_path / "heedful.service").write_text(UNIT.replace("/opt/heedful/bin/heedful", "/bin/true"), encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "heedful.service")]
    verified = subprocess.run(command, capture_output=True, text=True, timeout=60)
    said = [line for line in verified.stderr.splitlines() if "heedful.service" in line]
    assert not said
    assert verified.returncode == 0


def test_the_container_starts_a_valid_command_at_the_port_it_exposes() -> None:
    found = instructions()
    assert not set(found) - INSTRUCTIONS
    assert found["FROM"] == ["python:3.12-slim"]
    models, settings = served([*json.loads(found["ENTRYPOINT"][0]), *json.loads(found["CMD"][0])])
    assert models == ["model=/models"]
    assert settings.host == "0.0.0.0"
    assert found["EXPOSE"] == [str(settings.port)] == [str(DEFAULTS.port)]
    assert found["USER"][-1] not in ("root", "0")
    (check,) = found["HEALTHCHECK"]
    _, code, script = json.loads(check.partition("CMD ")[2])
    assert code == "-c"
    compile(script, "HEALTHCHECK", "exec")
    assert f":{settings.port}/health" in script


def test_the_container_copies_files_that_exist() -> None:
    copied = [name for line in instructions()["COPY"] for name in line.split()[:-1]]
    assert {"pyproject.toml", "constraints.txt", "src"} <= set(copied)
    assert not [name for name in copied if not (ROOT / name).exists()]


def test_docker_waits_as_long_as_the_unit() -> None:
    waits = re.findall(r"--stop-timeout (\d+)", PAGE)
    assert waits
    assert set(waits) == {f"{DEFAULTS.grace + STOPPING:g}"}


def test_nginx_has_the_numbers_of_the_service() -> None:
    def value(name: str) -> str:
        (found,) = re.findall(rf"^\s*{name} (.*);$", NGINX, re.MULTILINE)
        return str(found)

    assert value("client_max_body_size") == str(DEFAULTS.max_body)
    assert value("proxy_buffering") == "off"
    assert int(value("proxy_read_timeout").removesuffix("s")) > DEFAULTS.timeout
    assert value("server") == f"{DEFAULTS.host}:{DEFAULTS.port}"
    assert value("proxy_set_header X-Forwarded-For") == "$remote_addr"


@pytest.mark.parametrize("path", sorted(DEPLOY.iterdir()), ids=lambda path: path.name)
def test_no_file_names_a_path_or_a_registry_of_a_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(work|tmp|home|root)/|https?://(?!127\.0\.0\.1|heedful)", text)
