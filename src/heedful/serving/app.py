"""The web application: all APIs, the page, health, metrics and documentation, behind the edge."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

from heedful import __version__
from heedful.jobs.registry import VERBS
from heedful.serving import api_embeddings, api_libretranslate, api_openai, api_verbs
from heedful.serving.edge import Edge, Rates, error_answer
from heedful.serving.metrics import Metrics
from heedful.serving.page import add_page
from heedful.serving.pool import Pool
from heedful.serving.request_error import RequestError
from heedful.serving.schemas import request_model
from heedful.serving.service import Service
from heedful.serving.settings import Keys, ServeSettings
from heedful.settings import JsonObject

ABOUT = """Trained models behind one address: heedful's own API (`/api/…`), and the APIs of LibreTranslate, OpenAI
(completions and embeddings) and text-embeddings-inference, so that software that speaks one of them works unchanged."""
PAGE_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">"""
DOCS_PAGE = f"""{PAGE_HEAD}<title>heedful API</title><link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body></html>"""
DOCS_SCRIPT = 'SwaggerUIBundle({url: "/openapi.json", dom_id: "#swagger-ui", deepLinking: true});'
METHODS = "GET, HEAD, POST, OPTIONS"


def create_app(pool: Pool, settings: ServeSettings, keys: Keys, metrics: Metrics) -> Edge:
    """The application behind its edge."""
    app = FastAPI(title="heedful", description=ABOUT, version=__version__, docs_url=None, redoc_url=None)
    rates = Rates(settings.requests_per_minute)
    service = Service(pool, settings, keys, rates)
    for api in (api_verbs, api_libretranslate, api_openai, api_embeddings):
        app.include_router(api.router(service))
    add_operations(app, pool, metrics)
    add_page(app, pool, keys)
    add_docs(app)
    add_errors(app)
    return Edge(app, pool, settings, keys, metrics, rates)


def add_operations(app: FastAPI, pool: Pool, metrics: Metrics) -> None:
    """What operators ask for."""

    @app.get("/health", tags=["operation"], summary="Whether the service runs")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/ready", tags=["operation"], summary="Whether requests can be answered now", responses={503: {}})
    def ready() -> JSONResponse:
        return JSONResponse({"status": "ready"} if pool.ready else {"status": "not ready"}, 200 if pool.ready else 503)

    @app.get("/metrics", tags=["operation"], summary="Counters for Prometheus", response_class=Response)
    def show_metrics() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def add_docs(app: FastAPI) -> None:
    """The documentation of the API, from files on this machine."""
    import fastapi_offline

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(DOCS_PAGE)

    @app.get("/docs/start.js", include_in_schema=False)
    def start_script() -> Response:
        return Response(DOCS_SCRIPT, media_type="text/javascript")

    app.mount("/docs", StaticFiles(directory=Path(fastapi_offline.__file__).parent / "static"), name="docs")

    def schema() -> JsonObject:
        if not app.openapi_schema:
            found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            body = found["paths"]["/api/classify"]["post"]["requestBody"]
            shape = request_model(VERBS["classify"]).model_json_schema()
            body["required"] = True
            body["content"]["application/json"] = {"schema": shape}
            for path in found["paths"].values():
                for operation in path.values():
                    if "422" in operation["responses"] and "HTTPValidationError" in str(operation["responses"]["422"]):
                        del operation["responses"]["422"]
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = schema  # type: ignore[method-assign]


BRANCH = re.compile(r"(constrained-)?(str|int|float|bool|none)$|list\[|[A-Z]")  # of a union that was tried, as pydantic names it


def what_is_wrong(error: RequestValidationError | ValidationError) -> Any:
    """The problem that says most: of several ways to read a value, the one that got furthest."""
    found = error.errors()
    same = [one for one in found if one["loc"][:2] == found[0]["loc"][:2]]
    return max(same, key=lambda one: len(one["loc"]))


def places(problem: Any) -> list[str]:
    """Where in a request a problem is: fields and positions."""
    names = [str(part) for part in problem["loc"] if part != "body"]
    return [name for number, name in enumerate(names) if not (number and BRANCH.match(name))]


def field_of(error: Any) -> str | None:
    """The field of a request that is wrong."""
    if not isinstance(error, RequestValidationError | ValidationError):
        return None
    wrong = what_is_wrong(error)
    return next(iter(places(wrong)), None) if wrong["type"] != "json_invalid" else None


def add_errors(app: FastAPI) -> None:
    """Every error in words, and in the shape of the API that was called."""

    def answers(status: int, say: Callable[[Request, Any], str]) -> Callable[[Request, Any], Awaitable[Response]]:
        async def handler(request: Request, error: Any) -> Response:
            code = getattr(error, "status_code", status)
            said = RequestError(code, say(request, error), field=field_of(error))
            answer = error_answer(request.url.path, said)
            if code == 405:
                answer.headers["Allow"] = (getattr(error, "headers", None) or {}).get("Allow", METHODS)
            return answer

        return handler

    def invalid(request: Request, error: RequestValidationError | ValidationError) -> str:
        wrong = what_is_wrong(error)
        if wrong["type"] == "json_invalid":
            return "the body is not valid JSON"
        if not places(wrong) and "json" not in request.headers.get("content-type", ""):
            return "the body must be a JSON object, sent with the header `Content-Type: application/json`"
        place = ".".join(places(wrong))
        return f"{place}: {wrong['msg']}" if place else str(wrong["msg"])

    def http(request: Request, error: HTTPException) -> str:
        known = {
            400: "the body is not valid JSON" if error.detail == "There was an error parsing the body" else str(error.detail),
            404: f"there is nothing at {request.url.path[:80]}; see /docs",
            405: f"{request.method} is not possible here",
        }
        return known.get(error.status_code, str(error.detail))

    async def refused(request: Request, error: RequestError) -> Response:
        return error_answer(request.url.path, error)

    app.add_exception_handler(RequestError, refused)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, answers(422, invalid))
    app.add_exception_handler(ValidationError, answers(422, invalid))
    app.add_exception_handler(HTTPException, answers(500, http))
