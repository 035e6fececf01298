"""LibreTranslate's API: `/translate`, `/languages`, `/detect`, `/translate_file`, `/frontend/settings`."""

from __future__ import annotations

import asyncio
import json
from pathlib import PurePath
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from heedful.data.encodings import guess_encoding
from heedful.serving.html_text import HtmlText
from heedful.serving.kept_files import KeptFiles
from heedful.serving.languages import UNKNOWN
from heedful.serving.pool import Model
from heedful.serving.request_error import RequestError
from heedful.serving.schemas import Problem
from heedful.serving.service import Service
from heedful.settings import JsonObject
from heedful.text.sentences import split_text

SHORT = 40  # characters; the language of so short a text is told from all texts of its request
FILES = {".txt": "text/plain; charset=utf-8", ".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8"}

PROBLEMS: dict[int | str, JsonObject] = {
    status: {"model": Problem, "description": "An error."} for status in (400, 403, 404, 408, 413, 429, 500, 503)
}


class TranslateRequest(BaseModel):
    """A text to translate, or several."""

    model_config = ConfigDict(extra="ignore")

    q: str | list[str] = Field(description="Text, or several.")
    source: str = Field(description="Code of the language, or `auto`.")
    target: str = Field(description="Code of the language.")
    format: str = Field("text", description="`text` or `html`.")
    alternatives: int = Field(0, ge=0, description="Further translations wanted.")
    api_key: str = ""


class DetectRequest(BaseModel):
    """A text whose language is wanted."""

    q: str
    api_key: str = ""


class Translated(BaseModel):
    """A translation, or several."""

    translatedText: str | list[str]  # noqa: N815 - the name that clients know
    detectedLanguage: JsonObject | list[JsonObject] | None = None  # noqa: N815
    alternatives: list[Any] | None = None


class Language(BaseModel):
    """A language and those it can be translated into."""

    code: str
    name: str
    targets: list[str]


class Detected(BaseModel):
    """A language that a text may be in; the confidence is a percentage."""

    confidence: float
    language: str


class TranslatedFile(BaseModel):
    """Where to fetch a translated file."""

    translatedFileUrl: str  # noqa: N815


def body_of(schema: type[BaseModel]) -> JsonObject:
    """A request body that may be JSON or a form."""
    shape = schema.model_json_schema()
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": True, "content": {kind: {"schema": shape} for kind in kinds}}}


FILE_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "source": {"type": "string"},
                        "target": {"type": "string"},
                        "api_key": {"type": "string"},
                    },
                    "required": ["file", "source", "target"],
                }
            }
        },
    }
}


def router(service: Service) -> APIRouter:
    """The paths of this API."""
    api = APIRouter(tags=["LibreTranslate"])
    files = KeptFiles()

    @api.get("/languages", summary="The languages", response_model=list[Language])
    def languages() -> Any:
        return service.languages.listed()

    @api.get("/frontend/settings", summary="What pages should know")
    def frontend_settings() -> JsonObject:
        pairs = service.languages.pairs
        pair = next((pair for pair in pairs if UNKNOWN not in pair), next(iter(pairs), ("", "")))
        source, target = ({"code": code, "name": service.languages.name(code)} for code in pair)
        return {
            "apiKeys": bool(service.keys),
            "charLimit": service.settings.max_characters,
            "filesTranslation": True,
            "frontendTimeout": 500,
            "keyRequired": bool(service.keys),
            "language": {"source": source, "target": target},
            "suggestions": False,
            "supportedFilesFormat": list(FILES),
        }

    @api.post(
        "/translate",
        summary="Translate text",
        response_model=Translated,
        responses=PROBLEMS,
        openapi_extra=body_of(TranslateRequest),
    )
    async def translate(request: Request) -> Any:
        given = await parameters(request)
        check_key(service, request, given)
        texts = given.get("q")
        several = isinstance(texts, list)
        if not texts:
            raise RequestError(400, "Invalid request: missing q parameter")
        if not (isinstance(texts, str) or (several and all(isinstance(text, str) for text in texts))):
            raise RequestError(400, "Invalid request: q parameter is not text")
        inputs: list[str] = texts if isinstance(texts, list) else [str(texts)]
        source, target = text_of(given, "source"), text_of(given, "target")
        wanted = alternatives_of(service, given.get("alternatives", 0))
        check_size(service, inputs)
        kind = given.get("format") or "text"
        if kind not in ("text", "html"):
            raise RequestError(400, f"{str(kind)[:40]} format is not supported")
        if source == "auto":
            await service.languages.prepare()
        ways, detected = chosen_ways(service, inputs, source, target)
        work = [
            asyncio.ensure_future(translate_text(service, request, way, text, wanted, kind == "html"))
            for way, text in zip(ways, inputs, strict=True)
        ]
        try:
            translated = await asyncio.gather(*work)
        finally:
            for one in work:  # when one fails, nobody waits for the others
                one.cancel()
        answer: JsonObject = {"translatedText": [best for best, _ in translated]}
        if wanted:
            answer["alternatives"] = [others for _, others in translated]
        if source == "auto":
            answer["detectedLanguage"] = detected
        return JSONResponse(answer if several else {name: value[0] for name, value in answer.items()})

    @api.post(
        "/detect",
        summary="The language of a text",
        response_model=list[Detected],
        responses=PROBLEMS,
        openapi_extra=body_of(DetectRequest),
    )
    async def detect(request: Request) -> Any:
        given = await parameters(request)
        check_key(service, request, given)
        text = text_of(given, "q")
        check_size(service, [text])
        await service.languages.prepare()
        found = [percentage(code, p) for code, p in service.languages.detect(text)[:5]]
        return JSONResponse([one for one in found if one["confidence"] > 0] or found[:1])

    @api.post(
        "/translate_file",
        summary="Translate a text or HTML file",
        response_model=TranslatedFile,
        responses=PROBLEMS,
        openapi_extra=FILE_BODY,
    )
    async def translate_file(request: Request) -> Any:
        given = await parameters(request)
        check_key(service, request, given)
        file = given.get("file")
        if not isinstance(file, UploadFile):
            raise RequestError(400, "Invalid request: missing file parameter")
        name = PurePath(file.filename or "").name
        suffix = PurePath(name).suffix.lower()
        if suffix not in FILES:
            raise RequestError(400, f"Invalid request: file format not supported; known: {', '.join(FILES)}")
        content = await file.read()
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise RequestError(
                400, f"Invalid request: the file is not UTF-8 but {guess_encoding(content) or 'no text'}"
            ) from error
        check_size(service, [text])
        if text_of(given, "source") == "auto":
            await service.languages.prepare()
        (way,), _ = chosen_ways(service, [text], text_of(given, "source"), text_of(given, "target"))
        best, _ = await translate_text(service, request, way, text, 0, suffix != ".txt")
        secret = files.keep(name, best.encode())
        return JSONResponse({"translatedFileUrl": str(request.url_for("download_file", name=secret))})

    @api.get("/download_file/{name}", summary="Fetch a translated file", responses={404: PROBLEMS[404]}, response_class=Response)
    def download_file(name: str) -> Response:
        named, content = files.fetch(name)
        safe = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in named) or "translated.txt"
        headers = {"Content-Disposition": f'attachment; filename="{safe}"'}
        return Response(content, media_type=FILES[PurePath(name).suffix.lower()], headers=headers)

    return api


async def parameters(request: Request) -> JsonObject:
    """The parameters of a request: a JSON object, a form, or the address itself."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("multipart/form-data", "application/x-www-form-urlencoded"):
        form = await request.form(max_files=1, max_fields=100)
        found: JsonObject = {**request.query_params, **form}
        texts = [text.replace("\r\n", "\n") if isinstance(text, str) else text for text in form.getlist("q")]
        if texts:  # browsers send lines with \r\n
            found["q"] = texts if len(texts) > 1 else texts[0]
        return found
    body = await request.body()
    if not body:
        return dict(request.query_params)
    try:
        given = json.loads(body)
        json.dumps(given, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise RequestError(400, "Invalid JSON format") from error
    if not isinstance(given, dict):
        raise RequestError(400, "Invalid JSON format")
    return given


def check_key(service: Service, request: Request, given: JsonObject) -> None:
    """The key may be in the body; with keys, one is needed."""
    if service.keys and not request.state.key_given:
        key = given.get("api_key")
        if not key:
            raise RequestError(400, "Please contact the server operator to get an API key")
        number = service.keys.number(key) if isinstance(key, str) else None
        service.rates.check(request.state.caller if number is None else f"key {number}")
        if number is None:
            raise RequestError(403, "Invalid API key")


def text_of(given: JsonObject, name: str) -> str:
    """A parameter that must be there."""
    value = given.get(name)
    if not value:
        raise RequestError(400, f"Invalid request: missing {name} parameter")
    if not isinstance(value, str):
        raise RequestError(400, f"Invalid request: {name} parameter is not text")
    return value


def alternatives_of(service: Service, given: Any) -> int:
    """How many alternatives are wanted; fewer than none is none."""
    try:
        found = max(0, int(given or 0))
    except (TypeError, ValueError, OverflowError):
        raise RequestError(400, "Invalid request: alternatives parameter is not a number") from None
    if found >= service.settings.max_beam:
        raise RequestError(400, f"Invalid request: alternatives parameter must be <= {service.settings.max_beam - 1}")
    return found


def check_size(service: Service, texts: list[str]) -> None:
    """Not too many texts, not too long: 400, as LibreTranslate answers, where other APIs answer 413."""
    try:
        service.check_texts(texts)
    except RequestError as error:
        raise RequestError(400, f"Invalid request: {error}") from error


def percentage(code: str, probability: float) -> JsonObject:
    """A detected language in LibreTranslate's shape."""
    return {"confidence": round(100 * probability, 1), "language": code}


def chosen_ways(service: Service, texts: list[str], source: str, target: str) -> tuple[list[list[Model]], list[JsonObject]]:
    """The models that translate each text, and the language found for it when it is to be detected."""
    languages = service.languages
    pairs = languages.pairs
    if not pairs:
        raise RequestError(400, "no translation model is served")
    alone = next(iter(pairs)) if len(pairs) == 1 else None
    goal = languages.find(target)
    if goal is None and alone and alone[1] == "und":
        goal = "und"  # the only model does not say what it translates into: it is what the caller wants
    if goal is None:
        raise RequestError(400, f"{target[:40]} is not supported")
    ways, detected = [], []
    for text in texts:
        start: str | None
        if source == "auto":
            found = languages.detect(text if len(text) > SHORT else "\n".join(texts))
            code, probability = found[0] if found else ("und", 0.0)
            detected.append(percentage(code, probability))
            start = languages.find(code) or (alone[0] if alone else None)
            if start is None or languages.way(start, goal) is None:
                able = [pair[0] for pair in pairs if languages.way(pair[0], goal)]
                start = able[0] if len(able) == 1 else start
        else:
            start = languages.find(source) or ("und" if alone and alone[0] == "und" else None)
        if start is None:
            raise RequestError(400, f"{source[:40]} is not supported")
        way = languages.way(start, goal)
        if way is None:
            names = f"{languages.name(goal)} ({goal})", f"{languages.name(start)} ({start})"
            raise RequestError(400, f"{names[0]} is not available as a target language from {names[1]}")
        ways.append(way)
    return ways, detected


async def translate_text(
    service: Service, request: Request, way: list[Model], text: str, alternatives: int, html: bool
) -> tuple[str, list[str]]:
    """A text translated by one model after the other, and other translations of it."""
    page = HtmlText(text) if html else None
    pieces = page.texts if page else [text]
    others: list[list[str]] = [[] for _ in range(alternatives)]
    for last, model in ((number == len(way) - 1, model) for number, model in enumerate(way)):
        split = [split_text(piece) for piece in pieces]
        sentences = [part for parts in split for part, is_text in parts if is_text]
        options = {"n_best": alternatives + 1} if alternatives and last else {}
        request.state.model = model.name
        found = iter(await service.all(request, model, "translate", sentences, options) if sentences else [])
        versions: list[list[str]] = [["" for _ in pieces] for _ in range(alternatives + 1)]
        for number, parts in enumerate(split):
            for part, is_text in parts:
                written = [one["text"] for one in next(found)[0]["translations"]] if is_text else [part]
                for rank, version in enumerate(versions):
                    version[number] += written[min(rank, len(written) - 1)] if written else ""
        pieces, others = versions[0], versions[1:]
    join = page.with_texts if page else "".join
    best = join(pieces)
    different = [version for version in dict.fromkeys(join(other) for other in others) if version != best]
    return best, different
