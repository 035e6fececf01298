"""`heedful serve`: trained models behind an HTTP address."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from heedful.cli.verb import option_parameters
from heedful.errors import HeedfulError, UsageError
from heedful.serving.settings import ServeSettings

EXAMPLES = """Examples:

`heedful serve runs/dates`

`heedful serve en-de=runs/en-de de-en=runs/de-en --port 5000     # LibreTranslate's port; both directions`

`HEEDFUL_API_KEYS=secret heedful serve runs/my-gpt --host 0.0.0.0 --requests-per-minute 60`

`curl -s localhost:8000/api/translate -H 'Content-Type: application/json' -d '{"inputs": "15. November 2026"}'`
"""


def serve(**values: Any) -> None:
    """Serve models to others: heedful's own API and those of LibreTranslate, OpenAI and text-embeddings-inference.

    Every path with its options is at /docs of the address it prints. Ctrl-C or SIGTERM stops it when what has begun is
    answered; SIGHUP loads the models again, as does a changed model directory.
    """
    if sys.platform == "win32":
        raise HeedfulError("serving needs signals and limits of processes that Windows does not have; use WSL, Linux or macOS")
    models = named_models(values.pop("models"))
    settings = ServeSettings(**values)
    try:
        from heedful.serving.server import serve as run
    except ImportError as error:
        raise HeedfulError(f"serving needs {error.name}; install it with: pip install 'heedful[serve]'") from error
    run(models, settings)


def named_models(given: list[str]) -> dict[str, Path]:
    """NAME=DIRECTORY, or a directory that is named after itself: runs/dates and runs/dates/best are both "dates".

    A run of `train --both` is two models, the other one called NAME-reverse.
    """
    found: dict[str, Path] = {}
    for one in given:
        name, sign, path = one.partition("=")
        folder = Path(path if sign and not Path(one).exists() else one)
        if not sign or Path(one).exists():
            whole = folder.resolve()
            name = whole.parent.name if whole.name in ("best", "final") else whole.name
        if not folder.is_dir():
            raise HeedfulError(f"there is no model directory {folder}")
        if not name or not all(character.isalnum() or character in "-_.:" for character in name):
            raise UsageError(f"'{name}' cannot be the name of a model; give one of letters and digits: NAME={folder}")
        if name in found:
            raise UsageError(f"two models are called '{name}'; give them names: {name}-2={folder}")
        found[name] = folder
        if (folder / "reverse").is_dir():  # only then: it imports PyTorch, which the front process does without
            from heedful.pipelines.model_directory import other_direction

            reverse = other_direction(folder, only_asked=True)
            if reverse is not None:
                found.setdefault(f"{name}-reverse", reverse)
    return found


models = Annotated[list[str], typer.Argument(metavar="MODEL...", help="Model directories or runs; NAME=DIRECTORY to name one.")]
parameters = [
    inspect.Parameter("models", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=models),
    *option_parameters(ServeSettings),
]
serve.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
serve.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
