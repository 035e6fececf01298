"""The API of Hugging Face's text-embeddings-inference: `/embed`, `/predict`, `/tokenize`, `/info`."""

from __future__ import annotations

import math
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from heedful import __version__
from heedful.serving.pool import Model
from heedful.serving.request_error import RequestError
from heedful.serving.service import Service
from heedful.settings import JsonObject

Text = Annotated[str, Field(max_length=1_000_000)]
One = Annotated[list[Text], Field(min_length=1, max_length=1)]


class EmbeddingsProblem(BaseModel):
    """An error in the shape of text-embeddings-inference."""

    error: str
    error_type: str


PROBLEMS: dict[int | str, JsonObject] = {
    status: {"model": EmbeddingsProblem, "description": "An error."} for status in (400, 401, 404, 408, 413, 422, 429, 500, 503)
}


class EmbedRequest(BaseModel):
    """Texts to turn into vectors."""

    model_config = ConfigDict(extra="ignore")

    inputs: Text | list[Text]
    normalize: bool | None = None
    truncate: bool | None = Field(None, description="Whether a text longer than the model reads is cut, or else refused.")
    model: str | None = None


class PredictRequest(BaseModel):
    """A text to classify, or several, each a list of one."""

    model_config = ConfigDict(extra="ignore")

    inputs: Text | One | list[One]
    raw_scores: bool | None = Field(None, description="The numbers before they become probabilities.")
    truncate: bool | None = Field(None, description="Whether a text longer than the model reads is cut, or else refused.")
    model: str | None = None


class TokenizeRequest(BaseModel):
    """Texts to tokenize."""

    model_config = ConfigDict(extra="ignore")

    inputs: Text | list[Text]
    add_special_tokens: bool = True
    model: str | None = None


def as_list(given: Any) -> list[Any]:
    """One or several; not none."""
    found = given if isinstance(given, list) else [given]
    if not found:
        raise RequestError(422, "inputs is empty", "usage")
    return found


def router(service: Service) -> APIRouter:
    """The paths of this API."""
    api = APIRouter(tags=["text-embeddings-inference"])

    @api.get("/info", summary="The model that answers `/embed` or `/predict`", responses={404: PROBLEMS[404]})
    def info() -> JsonObject:
        models = list(service.pool.models.values())
        model = next((one for one in models if {"embed", "classify"} & set(one.facts["verbs"])), models[0])
        labels = model.facts["labels"]
        kind: JsonObject = {"embedding": {"pooling": "mean"}} if "embed" in model.facts["verbs"] else {model.facts["task"]: {}}
        if labels:
            names = {str(number): label for number, label in enumerate(labels)}
            kind = {"classifier": {"id2label": names, "label2id": {label: number for number, label in enumerate(labels)}}}
        return {
            "model_id": model.name,
            "model_sha": None,
            "model_dtype": "float32",
            "model_type": kind,
            "max_concurrent_requests": service.settings.max_queue,
            "max_input_length": model.facts["max_length"],
            "max_batch_tokens": service.settings.max_characters,
            "max_client_batch_size": service.settings.max_items,
            "tokenization_workers": len(service.pool.workers),
            "version": __version__,
        }

    @api.post("/embed", summary="Texts as vectors", responses=PROBLEMS, response_model=list[list[float]])
    async def embed(request: Request, body: EmbedRequest) -> Any:
        model = service.model(request, body.model, "embed")
        texts = as_list(body.inputs)
        service.check_texts(texts)
        if body.truncate is False:
            await check_lengths(service, request, model, texts)
        vectors = [answers[0]["vector"] for answers in await service.all(request, model, "embed", texts, {})]
        return JSONResponse([unit(vector) if body.normalize is not False else vector for vector in vectors])

    @api.post("/predict", summary="The classes of texts with their probabilities", responses=PROBLEMS, response_model=None)
    async def predict(request: Request, body: PredictRequest) -> Any:
        model = service.model(request, body.model, "classify")
        if model.facts["task"] == "image-classification":
            raise RequestError(400, "the model classifies images: send them to /api/classify", "model")
        rows = as_list(body.inputs)
        alone = isinstance(rows[0], str)
        texts = [row if isinstance(row, str) else row[0] for row in rows]
        service.check_texts(texts)
        if body.truncate is False:
            await check_lengths(service, request, model, texts)
        verb, options = ("logits", {}) if body.raw_scores else ("classify", {"top": len(model.facts["labels"])})
        found = [
            [{"score": one["probability"], "label": one["label"]} for one in answers[0]["labels"]]
            for answers in await service.all(request, model, verb, texts, options)
        ]
        return JSONResponse(found[0] if alone else found)

    @api.post("/tokenize", summary="The tokens of texts", responses=PROBLEMS, response_model=None)
    async def tokenize(request: Request, body: TokenizeRequest) -> Any:
        model = service.any_model(body.model)
        texts = as_list(body.inputs)
        service.check_texts(texts)
        options = {"add_special_tokens": body.add_special_tokens}
        found = await service.all(request, model, "tokenize", texts, options)
        return JSONResponse([answers[0]["tokens"] for answers in found])

    @api.post("/", summary="Classify or embed, whichever the first model is for", responses=PROBLEMS, response_model=None)
    async def either(request: Request, body: EmbedRequest) -> Any:
        """As Hugging Face's client calls an endpoint: the classes of each text, or its vector."""
        first = next(iter(service.pool.models.values()))
        if "classify" in first.facts["verbs"]:
            rows = [[text] for text in as_list(body.inputs)]
            return await predict(request, PredictRequest(inputs=rows, truncate=body.truncate, model=body.model, raw_scores=None))
        return await embed(request, body)

    return api


async def check_lengths(service: Service, request: Request, model: Model, texts: list[str]) -> None:
    """No text that is longer than the model reads."""
    longest = model.facts["max_length"]
    for answers in await service.all(request, model, "tokenize", texts, {"add_special_tokens": True}):
        if (given := len(answers[0]["tokens"])) > longest:
            raise RequestError(413, f"inputs must have at most {longest:,} tokens, not {given:,}", "size")


def unit(vector: list[float]) -> list[float]:
    """A vector of length one."""
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector] if length else vector
