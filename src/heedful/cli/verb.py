"""What the verbs that use a model share: options from the registry, inputs in groups, results printed in order."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from heedful.cli import console
from heedful.cli.lines import groups_of_lines
from heedful.errors import HeedfulError, InputError, UsageError
from heedful.jobs.options import ABOUT_BACKEND, Backend, Options
from heedful.jobs.registry import VERBS, Verb
from heedful.settings import Hint, JsonObject, from_json, hints, parts_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from heedful.jobs.results import Result
    from heedful.pipelines.pipeline import AnyPipeline

Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]


@dataclass
class Request:
    """One call of a verb: the model, the inputs and options, and the values of the verb's own options."""

    verb: Verb
    pipeline: AnyPipeline
    options: Options
    groups: Iterator[list[Any]]  # of inputs
    as_json: bool
    own: JsonObject = field(default_factory=dict)


Work = Callable[[Request], None]


def verb_command(name: str, example: str, work: Work | None = None, own: Sequence[inspect.Parameter] = ()) -> Callable[..., None]:
    """Make the command of a verb, with some options of its `own`; `work` runs it, by default by printing the results."""
    verb = VERBS[name]
    model = Annotated[Path, typer.Argument(help=f"A model directory or a run, such as {example}.")]
    text = Annotated[list[str] | None, typer.Argument(help=f"{verb.inputs}; without them, lines are read from stdin.")]
    given = Annotated[Path | None, typer.Option(help=f"A file with one of the {verb.inputs.lower()} per line (plain or gzip).")]
    as_json = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
    parameters = [
        _parameter("model", model, inspect.Parameter.empty),
        _parameter("text", text, None),
        _parameter("input", given, None),
        *own,
        *option_parameters(verb.options),
        _parameter("as_json", as_json, False),
        _parameter("device", Device, "auto"),
    ]

    def command(**values: Any) -> None:
        options = verb.options(**{key: values[key] for key in hints(verb.options)})
        extra = {parameter.name: values[parameter.name] for parameter in own}
        extra["input"] = values["input"]
        from heedful.pipelines.load import load_for_verb
        from heedful.runtime.device import pick_device

        if values["text"] and values["input"]:
            raise UsageError("give text or --input, not both")
        if extra.get("to"):
            from heedful.pipelines.model_directory import towards

            values["model"] = towards(values["model"], extra["to"])
        pipeline = load_for_verb(name, values["model"], pick_device(values["device"]))
        if "backend" in extra:
            from heedful.interop.backend import use_backend

            use_backend(pipeline, values["model"], from_json("backend", Backend, extra["backend"]), console.note)
        groups = groups_of_lines(values["text"], values["input"], file_names=pipeline.task == "image-classification")
        if work is None and extra.get("output"):
            if not values["input"] or not values["input"].is_file():
                raise UsageError("--output needs --input FILE, so that the same command can continue after an interruption")
            wish = {key: str(values[key]) for key in values if key not in ("output", "device")}
            extra["wish"] = {**wish, **_versions(values["input"], values["model"])}
        (work or show_results)(Request(verb, pipeline, options, groups, values["as_json"], extra))

    command.__name__, command.__doc__ = name, f"{verb.about}. Takes arguments, a file, or standard input."
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def own_option(name: str, kind: Hint, default: object, about: str) -> inspect.Parameter:
    """An option that only the command line has, such as a file to write."""
    return _parameter(name, Annotated[kind, typer.Option(help=about)], default)


def _parameter(name: str, annotation: Hint, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


to = own_option("to", str | None, None, "For a run with both directions (`train --both`): the language to translate into.")
output = own_option(
    "output",
    Path | None,
    None,
    "With --input: write to this file, which appears when complete; if interrupted, the same command continues.",
)
backend = own_option("backend", str, "native", ABOUT_BACKEND)


def option_parameters(options: type[DataclassInstance]) -> Iterator[inspect.Parameter]:
    """The fields of a class of options or settings as options of a command. Ranges are checked by the class itself."""
    types = hints(options)
    for one in fields(options):
        kind, optional, _, _ = parts_of(types[one.name])
        default = one.default if one.default is not MISSING else None
        yield own_option(one.name, kind | None if optional else kind, default, one.metadata["about"])


def show_results(request: Request) -> None:
    """Print the result of every input in order. An input that cannot be used is reported, and the others are processed."""
    from heedful.pipelines.pipeline import run_each

    if request.own.get("output"):
        _write_results(request)
        return
    failed = total = loops = 0
    for group in request.groups:
        for given, results in zip(group, run_each(request.pipeline, group, request.options), strict=True):
            total += 1
            if isinstance(results, InputError):
                failed += 1
                console.say(f"error: input {total:,}: {results}", error=True)
            loops += _is_loop(request, given, results)
            for line in _lines(request, given, results, first=total == 1):
                print(line)
        sys.stdout.flush()
    _tell(total, failed, loops)


def _tell(total: int, failed: int, loops: int) -> None:
    """Report inputs that failed and outputs that repeat themselves."""
    if loops:
        advice = "--no-repeat-ngram 4 prevents that"
        console.say(f"warning: {loops:,} of {total:,} outputs repeat a few words over and over; {advice}", error=True)
    if failed:
        raise HeedfulError(f"{failed:,} of {total:,} inputs could not be used")


def _write_results(request: Request) -> None:
    """Write the result of every input to a file that appears when all are done, continuing what an earlier process began."""
    from heedful.cli.output_file import OutputFile
    from heedful.data.lines import open_text
    from heedful.pipelines.pipeline import run_each

    file = OutputFile(Path(str(request.own["output"])), cast(JsonObject, request.own["wish"]))
    with open_text(Path(str(request.own["input"]))) as lines:
        total = sum(1 for _ in lines)
    screen = console.screen(error=True)
    if file.done.inputs:
        screen.say(f"continuing after {file.done.inputs:,} of {total:,} lines")
    tick = screen.track(request.verb.name, total, file.done.inputs)
    skipped = 0
    try:
        for group in request.groups:
            if skipped < file.done.inputs:  # the lines of a file always form the same groups
                skipped += len(group)
                continue
            each = run_each(request.pipeline, group, request.options)
            failed = loops = 0
            written: list[str] = []
            for number, (given, results) in enumerate(zip(group, each, strict=True), file.done.inputs + 1):
                if isinstance(results, InputError):
                    failed += 1
                    console.say(f"error: input {number:,}: {results}", error=True)
                loops += _is_loop(request, given, results)
                written += _lines(request, given, results, first=number == 1)
            file.add(written, len(group), failed, loops)
            skipped += len(group)
            tick(len(group))
    finally:
        screen.close()
    file.finish()
    _tell(file.done.inputs, file.done.failed, file.done.loops)


def _versions(input: Path, model: Path) -> JsonObject:
    """Modification times and sizes of the input and the model."""
    from heedful.pipelines.model_directory import find_directory

    facts = {"input": input.stat(), "weights": (find_directory(model) / "model.safetensors").stat()}
    return {f"{name} file": [stat.st_size, stat.st_mtime_ns] for name, stat in facts.items()}


def _is_loop(request: Request, given: object, results: Sequence[Result] | InputError) -> bool:
    """Whether an output repeats itself although its input does not and the verb has options against it."""
    from heedful.decoding.repetition import repeats_itself

    if isinstance(results, InputError) or getattr(request.options, "no_repeat_ngram", True):
        return False
    return not repeats_itself(str(given).split()) and any(repeats_itself(result.as_text().split()) for result in results)


def _lines(request: Request, given: object, results: Sequence[Result] | InputError, first: bool) -> Iterator[str]:
    """The lines to print for one input; outputs stay aligned with inputs."""
    if request.as_json:
        if isinstance(results, InputError):
            name = fields(request.verb.result)[0].name
            results_json = [{name: getattr(results, "given", None) or str(given), "error": str(results)}]
        else:
            results_json = [result.as_json() for result in results]
        for row in results_json:
            yield json.dumps(row, ensure_ascii=False)
        return
    texts = [""] if isinstance(results, InputError) else [result.as_text() for result in results]
    for number, text in enumerate(texts):
        if request.verb.name == "generate" and not (first and number == 0):
            yield ""  # a blank line separates texts of many lines
        yield text
    wanted = getattr(request.options, "n_best", 1)
    written = sum(text.count("\n") + 1 for text in texts)
    if request.verb.name == "translate":
        yield from [""] * (wanted - written)  # the same number of lines for every input
