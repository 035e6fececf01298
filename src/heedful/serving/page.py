"""The explorer page of a service: its files, what it tells of the models, and their weights for the browser."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import multiprocessing
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from heedful.serving.pool import Model, Pool
from heedful.serving.request_error import RequestError
from heedful.serving.settings import Keys
from heedful.settings import JsonObject

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}  # of the files that are served
METHODS = ["GET", "HEAD"]
PATIENCE = 300.0  # seconds that packing a model may take


@dataclass(frozen=True)
class PageFile:
    """A file of the page, kept in memory in both forms."""

    content: bytes
    compressed: bytes
    etag: str
    media_type: str

    def answer(self, request: Request) -> Response:
        """The file, compressed if the caller can read that; 304 if the caller has it."""
        headers = {"ETag": self.etag, "Vary": "Accept-Encoding"}
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.compressed, headers={**headers, "Content-Encoding": "gzip"}, media_type=self.media_type)
        return Response(self.content, headers=headers, media_type=self.media_type)


def page_files(folder: Traversable, prefix: str = "") -> dict[str, PageFile]:
    """Every file of the page by its path."""
    found: dict[str, PageFile] = {}
    for entry in folder.iterdir():
        suffix = Path(entry.name).suffix
        if entry.is_dir():
            found |= page_files(entry, f"{prefix}{entry.name}/")
        elif suffix in TYPES:
            content = entry.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            compressed = gzip.compress(content, mtime=0)
            found[prefix + entry.name] = PageFile(content, compressed, etag, f"{TYPES[suffix]}; charset=utf-8")
    return found


class ModelFiles:
    """The models as files for the browser, packed when first requested and kept until they are reloaded."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="heedful-page-")
        self.locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def path(self, model: Model) -> Path:
        """The file of the version of a model that answers now."""
        wanted = Path(self.folder.name) / f"{model.key.replace('#', '-version-')}.bin"
        async with self.locks[model.name]:
            if not wanted.is_file():
                for old in wanted.parent.glob(f"{model.name}-version-*.bin"):
                    old.unlink()
                await asyncio.to_thread(pack, model.facts["folder"], model.name, wanted)
        return wanted


def write_file(folder: str, name: str, path: str) -> None:
    """Pack a model; only the process that does it imports PyTorch."""
    from heedful.page.served import write_model_file

    write_model_file(folder, name, path)


def pack(folder: str, name: str, path: Path) -> None:
    """Write the file of a model, in a process of its own."""
    temporary = path.with_suffix(".tmp")
    process = multiprocessing.get_context("spawn").Process(
        target=write_file, args=(folder, name, str(temporary)), daemon=True, name=f"heedful-pack-{name}"
    )
    process.start()
    process.join(PATIENCE)
    if process.is_alive():
        process.kill()
        process.join()
    if process.exitcode != 0 or not temporary.is_file():
        raise RequestError(503, f"{name} could not be made ready for the page; try again", "overloaded", 10)
    temporary.rename(path)


def card(model: Model, whole: bool) -> JsonObject:
    """The card of a model for the page; samples may be private data and are only for callers who may use the model."""
    facts = model.facts
    found = {
        "name": model.name, "job": facts["task"], "verbs": facts["verbs"], "parameters": facts["parameters"], **facts["page"],
        "labels": facts["labels"], "url": None if facts["page"]["problem"] else f"/page/models/{model.name}.bin",
    }  # fmt: skip
    return found if whole else {**found, "samples": [], "labels": []}


def add_page(app: FastAPI, pool: Pool, keys: Keys) -> None:
    """The page at `/`, its files at `/page/…`, the models at `/page/models.json` and `/page/models/NAME.bin`."""
    files = page_files(resources.files("heedful.page"))
    weights = ModelFiles()

    @app.api_route("/", methods=METHODS, include_in_schema=False)
    def start(request: Request) -> Response:
        return files["index.html"].answer(request)

    @app.api_route("/page/models.json", methods=METHODS, include_in_schema=False)
    def models(request: Request) -> JSONResponse:
        whole = not keys or request.state.key_given
        return JSONResponse({"models": [card(model, whole) for model in pool.models.values()]})

    @app.api_route("/page/models/{name}.bin", methods=METHODS, include_in_schema=False)
    async def model_file(name: str, request: Request) -> Response:
        model = pool.models.get(name)
        if model is None:
            raise RequestError(404, f"there is no model {name[:80]}", "model")
        if problem := model.facts["page"]["problem"]:
            raise RequestError(404, problem, "model")
        etag = f'"{hashlib.sha256(repr((model.name, model.stamp)).encode()).hexdigest()[:20]}"'
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers={"ETag": etag})
        path = await weights.path(model)
        return FileResponse(path, headers={"ETag": etag, "Vary": "Authorization"}, media_type="application/octet-stream")

    @app.api_route("/page/{path:path}", methods=METHODS, include_in_schema=False)
    def page_file(path: str, request: Request) -> Response:
        found = files.get(path)
        if found is None:
            raise RequestError(404, f"there is no file {path[:80]} of the page")
        return found.answer(request)
