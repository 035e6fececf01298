"""heedful's own API: `/api/<verb>` for every verb, with the options and answers of the command line."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse

from heedful.jobs.registry import VERBS, Verb
from heedful.serving.pool import Model
from heedful.serving.request_error import RequestError
from heedful.serving.schemas import Problem, answer_model, request_model
from heedful.serving.service import Service
from heedful.settings import JsonObject

PROBLEMS: dict[int | str, JsonObject] = {
    status: {"model": Problem, "description": about}
    for status, about in {
        400: "The request cannot be answered as it is.",
        401: "An API key is needed.",
        404: "There is no such model.",
        408: "The request arrived too slowly.",
        413: "The request is too large.",
        422: "The request does not fit the schema.",
        429: "Too many requests.",
        500: "Something failed inside.",
        503: "Too busy, or stopping: try again after the seconds of `Retry-After`.",
    }.items()
}
FORM = {
    "multipart/form-data": {
        "schema": {
            "type": "object",
            "properties": {
                "file": {"type": "array", "items": {"type": "string", "format": "binary"}, "description": "Image files."},
                "model": {"type": "string"},
                "top": {"type": "integer", "minimum": 1, "maximum": 10_000_000},
            },
            "required": ["file"],
        }
    }
}


def router(service: Service) -> APIRouter:
    """The paths of this API."""
    api = APIRouter(prefix="/api", tags=["heedful"])

    @api.get("/models", summary="The models and what they can do")
    def models() -> JsonObject:
        return {"models": [described(model) for model in service.pool.models.values()]}

    for verb in VERBS.values():
        extra = {"requestBody": {"content": FORM}} if verb.name == "classify" else None
        api.post(f"/{verb.name}", summary=verb.about, response_model=answer_model(verb), responses=PROBLEMS, openapi_extra=extra)(
            _endpoint(service, verb)
        )
    return api


def described(model: Model) -> JsonObject:
    """The description of a model for callers."""
    names = ("task", "verbs", "parameters", "source_language", "target_language", "labels")
    return {"name": model.name, **{name: model.facts[name] for name in names}}


def _endpoint(service: Service, verb: Verb) -> Callable[..., Any]:
    """The handler of requests for one verb."""
    schema = request_model(verb)

    async def do(request: Request, inputs: list[Any], model_name: str | None, options: JsonObject, names: list[str]) -> Any:
        if not model_name and isinstance(inputs[0], bytes):
            models = service.pool.models.values()
            model_name = next((one.name for one in models if one.facts["task"] == "image-classification"), None)
        model = service.model(request, model_name, verb.name)
        if model.facts["task"] == "image-classification":
            images = [_image(given, name) for given, name in zip(inputs, names, strict=True)]
            inputs, names = [content for content, _ in images], [name for _, name in images]
        elif any(isinstance(given, bytes) for given in inputs):
            raise RequestError(400, f"{model.name} is {model.facts['what']}, which takes no images", "model")
        service.check_texts(inputs)
        service.check_options(options, len(inputs))
        outcomes = await service.run(request, model, verb.name, list(inputs), options)
        if all(isinstance(outcome, RequestError) for outcome in outcomes):
            raise outcomes[0]
        results: list[JsonObject] = []
        key = next(iter(answer_fields(verb)))
        for name, outcome in zip(names, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                results.append({key: name, "error": str(outcome)})
            elif model.facts["task"] == "image-classification":
                results += [{**row, key: name} for row in outcome]
            else:
                results += outcome
        return JSONResponse({"model": model.name, "results": results})

    async def endpoint(request: Request, body: Any) -> Any:
        inputs = body.inputs if isinstance(body.inputs, list) else [body.inputs]
        if not inputs:
            raise RequestError(422, "inputs is empty", "usage")
        if verb.name == "answer":
            given: list[Any] = [(one.question, one.passage) for one in inputs]
            names = [one.question for one in inputs]
        else:
            given = names = inputs
        options = body.model_dump(exclude={"model", "inputs"}, exclude_unset=True)
        return await do(request, given, body.model, options, names)

    async def endpoint_or_upload(request: Request) -> Any:
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            form = await request.form(max_files=service.settings.max_items, max_fields=10)
            files = [part for name in ("file", "files", "image") for part in form.getlist(name) if isinstance(part, UploadFile)]
            if not files:
                raise RequestError(422, "a form needs at least one image in its field `file`", "usage")
            given = [await part.read() for part in files]
            top = str(form.get("top", "1"))
            if not top.isdecimal() or not 1 <= int(top) <= 10_000_000:
                raise RequestError(422, "top must be a whole number from 1 on", "usage")
            named = form.get("model")
            names = [part.filename or "image" for part in files]
            return await do(request, given, str(named) if named else None, {"top": int(top)}, names)
        try:
            raw = json.loads(await request.body() or b"null")
        except (ValueError, RecursionError) as error:
            raise RequestError(422, "the body is not JSON", "usage") from error
        return await endpoint(request, schema.model_validate(raw))

    if verb.name == "classify":
        endpoint_or_upload.__name__ = verb.name
        endpoint_or_upload.schema = schema  # type: ignore[attr-defined]
        return endpoint_or_upload
    endpoint.__name__ = verb.name
    endpoint.__annotations__["body"] = schema
    endpoint.__annotations__["request"] = Request
    return endpoint


def answer_fields(verb: Verb) -> list[str]:
    """The names of an answer's parts; the first is the input."""
    return list(verb.result.__dataclass_fields__)


def _image(given: str | bytes, name: str) -> tuple[bytes, str]:
    """The bytes of an image that came as a file, as base64 or as a data URI; and a name for it."""
    if isinstance(given, bytes):
        return given, name
    encoded = given.partition("base64,")[2] if given.startswith("data:") else given
    try:
        return base64.b64decode(encoded, validate=True), "image"
    except (binascii.Error, ValueError):
        return b"", "image"  # reading it will raise a clear error
