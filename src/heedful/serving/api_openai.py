"""The supported part of OpenAI's API: models, completions by language models, embeddings by encoders."""

from __future__ import annotations

import base64
import random
import time
import uuid
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

from heedful.serving.completion_stream import CompletionStream, choice_of, usage_of
from heedful.serving.pool import Model, Ticket
from heedful.serving.request_error import RequestError
from heedful.serving.service import Service
from heedful.settings import JsonObject

Text = Annotated[str, Field(max_length=1_000_000)]
Token = Annotated[int, Field(strict=True)]


class OpenAIProblem(BaseModel):
    """An error in OpenAI's shape."""

    error: JsonObject


PROBLEMS: dict[int | str, JsonObject] = {
    status: {"model": OpenAIProblem, "description": "An error."} for status in (400, 401, 404, 408, 413, 429, 500, 503)
}
STREAM: JsonObject = {"content": {"text/event-stream": {}}}  # beside the JSON of an answer in one piece


class StreamOptions(BaseModel):
    """What a stream contains."""

    include_usage: bool = False


class CompletionRequest(BaseModel):
    """A prompt to continue."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    model: str | None = Field(None, description="Its name; without it, the first language model.")
    prompt: Text | list[Text] | list[Token] | list[list[Token]] | None = Field(
        None, description="Text, or token ids; one or several. Without it, the model begins by itself."
    )
    max_tokens: Annotated[int, Field(ge=0, le=1_000_000)] | None = 16
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = 1.0
    n: Annotated[int, Field(ge=1, le=128)] | None = 1
    stop: Text | Annotated[list[Text], Field(max_length=16)] | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    echo: bool | None = False
    seed: Annotated[int, Field(ge=-(2**63), le=2**63)] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    best_of: Annotated[int, Field(ge=1, le=128)] | None = Field(None, description="As `n`, or nothing.")
    top_k: Annotated[int, Field(ge=-1, le=10_000_000)] | None = Field(0, description="As vLLM has it: 0 or -1 is no limit.")
    presence_penalty: Literal[0] | None = 0
    frequency_penalty: Literal[0] | None = 0
    logit_bias: dict[str, float] | None = Field(None, description="Must be empty.")
    suffix: Literal[""] | None = None
    user: str | None = None


class EmbeddingRequest(BaseModel):
    """Texts to turn into vectors."""

    model_config = ConfigDict(extra="ignore")

    model: str | None = Field(None, description="Its name; without it, the first model that can.")
    input: Text | list[Text] = Field(description="One text or several; not token ids, which are of another model's vocabulary.")
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: Annotated[int, Field(ge=1, le=2**20)] | None = None
    user: str | None = None


def router(service: Service) -> APIRouter:
    """The paths of this API."""
    api = APIRouter(prefix="/v1", tags=["OpenAI"])

    @api.get("/models", summary="The models", responses={401: PROBLEMS[401]})
    def models() -> JsonObject:
        return {"object": "list", "data": [described(model) for model in service.pool.models.values()]}

    @api.get("/models/{name}", summary="One model", responses={401: PROBLEMS[401], 404: PROBLEMS[404]})
    def model(name: str) -> JsonObject:
        return described(service.any_model(name))

    @api.post(
        "/completions", summary="Continue prompts with a language model", responses={**PROBLEMS, 200: STREAM}, response_model=None
    )
    async def completions(request: Request, body: CompletionRequest) -> Any:
        chosen = service.model(request, body.model, "generate")
        if body.best_of not in (None, body.n or 1):
            raise RequestError(400, "best_of must be n: every text that is written is an answer", "usage", field="best_of")
        if body.logit_bias:
            raise RequestError(400, "logit_bias is not supported", "usage", field="logit_bias")
        prompts = prompts_of(body.prompt)
        service.check_texts(prompts)
        options = options_of(body)
        service.check_options({"max_tokens": options["max_tokens"], "n": body.n or 1}, len(prompts))
        seed = body.seed if body.seed is not None else random.randrange(2**62)
        caller = next(service.pool.callers)
        tickets: list[Ticket] = []
        try:
            for prompt in prompts:
                for draw in range(body.n or 1):
                    own = {**options, "seed": f"{seed}/{draw}"}
                    tickets.append(service.pool.submit(chosen, "complete", prompt, own, caller, stream=bool(body.stream)))
        except RequestError:
            service.pool.cancel(tickets)
            raise
        head = {"id": f"cmpl-{uuid.uuid4().hex}", "object": "text_completion", "created": int(time.time()), "model": chosen.name}
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            events = CompletionStream(service, tickets, head, body.n or 1 if usage else 0)
            await events.begin(request)
            unbuffered = {"X-Accel-Buffering": "no"}  # by a proxy
            return StreamingResponse(events.lines(), media_type="text/event-stream", headers=unbuffered)
        outcomes = await service.wait(request, tickets)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        choices = [choice_of(index, answers[0]) for index, answers in enumerate(outcomes)]
        return JSONResponse({**head, "choices": choices, "usage": usage_of([a[0] for a in outcomes], body.n or 1)})

    @api.post("/embeddings", summary="Texts as vectors", responses=PROBLEMS, response_model=None)
    async def embeddings(request: Request, body: EmbeddingRequest) -> Any:
        chosen = service.model(request, body.model, "embed")
        texts = [body.input] if isinstance(body.input, str) else body.input
        if not texts:
            raise RequestError(400, "input is empty", "usage")
        service.check_texts(texts)
        if body.dimensions not in (None, chosen.facts["width"]):
            raise RequestError(400, f"the vectors of {chosen.name} have {chosen.facts['width']} dimensions", "usage")
        vectors = [answers[0]["vector"] for answers in await service.all(request, chosen, "embed", texts, {})]
        rows: list[Any] = vectors
        if body.encoding_format == "base64":
            rows = [base64.b64encode(np.array(vector, dtype="<f4").tobytes()).decode() for vector in vectors]
        data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
        counted = await service.all(request, chosen, "tokenize", texts, {"add_special_tokens": True})
        tokens = sum(min(len(answers[0]["tokens"]), chosen.facts["max_length"]) for answers in counted)
        return JSONResponse(
            {
                "object": "list",
                "data": data,
                "model": chosen.name,
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
        )

    return api


def described(model: Model) -> JsonObject:
    """A model in OpenAI's shape."""
    return {"id": model.name, "object": "model", "created": int(model.loaded), "owned_by": "heedful"}


def prompts_of(given: str | list[str] | list[int] | list[list[int]] | None) -> list[Any]:
    """One prompt or several, each text or token ids."""
    if given is None or isinstance(given, str):
        return [given or ""]
    if not given:
        raise RequestError(400, "prompt is empty", "usage")
    if isinstance(given[0], int):
        return [given]
    return list(given)


def options_of(body: CompletionRequest) -> JsonObject:
    """A request as the options of a completion."""
    temperature = 1.0 if body.temperature is None else body.temperature
    return {
        "max_tokens": 16 if body.max_tokens is None else body.max_tokens,
        "temperature": temperature if temperature >= 0.001 else 0.0,
        "top_p": 1.0 if body.top_p is None else max(body.top_p, 1e-6),
        "top_k": max(0, body.top_k or 0),
        "stop": [body.stop] if isinstance(body.stop, str) else body.stop or [],
        "logprobs": body.logprobs,
        "echo": bool(body.echo),
        "stream": bool(body.stream),
    }
