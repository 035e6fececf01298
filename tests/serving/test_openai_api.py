"""OpenAI's own client, unchanged, against the service: completions in one piece and streamed, embeddings, errors."""

from __future__ import annotations

import asyncio
import base64
import math
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import torch
from servers import Server

from heedful.pipelines.load import load_for_verb
from heedful.pipelines.writer import Writer

MODEL = "language-model"


@pytest.fixture(scope="module")
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0)


@pytest.fixture(scope="module")
def writer(models: dict[str, Path]) -> Writer:
    return Writer.load(models[MODEL])


def test_the_models_are_listed(client: openai.OpenAI, models: dict[str, Path]) -> None:
    assert [model.id for model in client.models.list()] == list(models)
    assert client.models.retrieve(MODEL).object == "model"


def test_temperature_0_is_greedy(client: openai.OpenAI, writer: Writer) -> None:
    found = client.completions.create(model=MODEL, prompt="the sun is", max_tokens=20, temperature=0)
    assert found.choices[0].text == writer.generate("the sun is", length=20, beam=1)
    assert found.choices[0].finish_reason == "length"
    assert found.usage is not None
    assert found.usage.completion_tokens == 20
    assert found.usage.prompt_tokens == len(writer.tokenizer.encode("the sun is"))


def test_several_prompts_and_several_texts_of_each(client: openai.OpenAI) -> None:
    prompts = ["the sun", "the rain is over"]
    found = client.completions.create(model=MODEL, prompt=prompts, n=3, seed=5, max_tokens=12, temperature=1.0)
    assert [choice.index for choice in found.choices] == list(range(6))
    assert len({choice.text for choice in found.choices[:3]}) > 1
    alone = client.completions.create(model=MODEL, prompt=prompts[1], n=3, seed=5, max_tokens=12, temperature=1.0)
    assert [choice.text for choice in alone.choices] == [choice.text for choice in found.choices[3:]]


def test_the_same_seed_writes_the_same_and_no_seed_something_else(client: openai.OpenAI) -> None:
    def text(**options: Any) -> str:
        return client.completions.create(model=MODEL, prompt="the", max_tokens=30, temperature=1.5, **options).choices[0].text

    assert text(seed=1) == text(seed=1)
    assert text(seed=1) != text(seed=2)
    assert text() != text()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_stream_holds_the_text_of_the_whole_answer(client: openai.OpenAI, temperature: float) -> None:
    options: dict[str, Any] = {"model": MODEL, "prompt": "the sun", "max_tokens": 40, "temperature": temperature, "seed": 3}
    whole = client.completions.create(**options, n=2)
    pieces: list[list[str]] = [[], []]
    reasons: list[str | None] = [None, None]
    for event in client.completions.create(**options, n=2, stream=True, stream_options={"include_usage": True}):
        for choice in event.choices:
            pieces[choice.index].append(choice.text)
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
        usage = event.usage
    assert ["".join(parts) for parts in pieces] == [choice.text for choice in whole.choices]
    assert min(map(len, pieces)) > 5
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert usage == whole.usage


def test_a_stop_text_ends_the_output_and_is_never_shown(client: openai.OpenAI) -> None:
    options: dict[str, Any] = {"model": MODEL, "prompt": "the sun", "max_tokens": 60, "temperature": 0}
    whole = client.completions.create(**options).choices[0].text
    stop = whole[10:14]
    expected = whole[: whole.index(stop)]
    stopped = client.completions.create(**options, stop=[stop, "never there"]).choices[0]
    assert (stopped.text, stopped.finish_reason) == (expected, "stop")
    scored = client.completions.create(**options, stop=stop, logprobs=1).choices[0].logprobs
    assert scored is not None
    assert "".join(scored.tokens or []).startswith(expected)
    assert all(offset < len(expected) for offset in scored.text_offset or [])
    streamed = list(client.completions.create(**options, stop=stop, stream=True))
    assert "".join(event.choices[0].text for event in streamed) == expected
    assert streamed[-1].choices[0].finish_reason == "stop"


def test_log_probabilities_are_the_model_s_own(client: openai.OpenAI, writer: Writer) -> None:
    prompt = "the sun is over"
    found = client.completions.create(model=MODEL, prompt=prompt, max_tokens=8, temperature=0, logprobs=3, echo=True)
    choice = found.choices[0]
    assert choice.text.startswith(prompt)
    assert choice.logprobs is not None
    ids = writer.tokenizer.encode(choice.text)
    shown = choice.logprobs.tokens or []
    assert "".join(shown) == choice.text
    with torch.no_grad():
        read = torch.tensor([[writer.tokenizer.eos, *ids]])
        scores = writer.model.project(writer.model.states(read))[0].log_softmax(-1)
    values = choice.logprobs.token_logprobs or []
    tops = choice.logprobs.top_logprobs or []
    assert values[0] is None
    prompt_tokens = len(writer.tokenizer.encode(prompt))
    assert len(values) == len(tops) == prompt_tokens + 8
    for place in range(1, prompt_tokens):
        assert values[place] == pytest.approx(float(scores[place, ids[place]]), abs=1e-4)
        assert max(tops[place].values()) == pytest.approx(float(scores[place].max()), abs=1e-4)
    for place in range(prompt_tokens, len(values)):
        assert values[place] == pytest.approx(max(tops[place].values()), abs=1e-5)
        assert len(tops[place]) <= 3
    offsets = choice.logprobs.text_offset or []
    assert [choice.text[at : at + len(name)] for at, name in zip(offsets, shown, strict=True)] == shown


def test_a_prompt_can_be_scored_without_writing_anything(client: openai.OpenAI) -> None:
    found = client.completions.create(model=MODEL, prompt="the sun is over", max_tokens=0, logprobs=1, echo=True).choices[0]
    assert found.text == "the sun is over"
    assert found.logprobs is not None
    assert all(math.isfinite(value) for value in (found.logprobs.token_logprobs or [])[1:])


def test_prompts_may_be_token_ids(client: openai.OpenAI, writer: Writer) -> None:
    ids = writer.tokenizer.encode("the sun")
    options: dict[str, Any] = {"model": MODEL, "max_tokens": 10, "temperature": 0}
    expected = client.completions.create(**options, prompt="the sun").choices[0].text
    assert client.completions.create(**options, prompt=ids).choices[0].text == expected
    assert [c.text for c in client.completions.create(**options, prompt=[ids, ids]).choices] == [expected] * 2
    with pytest.raises(openai.BadRequestError, match="vocabulary"):
        client.completions.create(**options, prompt=[10**6])


def test_embeddings_equal_those_of_python(client: openai.OpenAI, server: Server, models: dict[str, Path]) -> None:
    texts = ["the sun is over 7 rivers .", "rain", ""]
    expected = load_for_verb("embed", models["classification"]).embed(texts)  # type: ignore[attr-defined]
    found = client.embeddings.create(model="classification", input=texts)  # the client asks for base64
    assert np.allclose([row.embedding for row in found.data], expected, atol=1e-5)
    tokenizer = load_for_verb("embed", models["classification"]).tokenizer  # type: ignore[attr-defined]
    assert found.usage.prompt_tokens == sum(len(tokenizer.encode(text)) + 2 for text in texts)
    plain = client.embeddings.create(model="classification", input=texts[0], encoding_format="float")
    assert np.allclose(plain.data[0].embedding, expected[0], atol=1e-5)
    raw = server.ask("/v1/embeddings", {"model": "classification", "input": texts, "encoding_format": "base64"})
    decoded = [np.frombuffer(base64.b64decode(row["embedding"]), dtype="<f4") for row in raw["data"]]
    assert np.allclose(decoded, expected, atol=1e-5)


def test_errors_are_those_that_the_client_knows(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no model 'gpt-4'"):
        client.completions.create(model="gpt-4", prompt="x")
    with pytest.raises(openai.BadRequestError, match="cannot generate"):
        client.completions.create(model="tagging", prompt="x")
    with pytest.raises(openai.BadRequestError, match="400 tokens"):
        client.completions.create(model=MODEL, prompt="x", max_tokens=401)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.completions.create(model=MODEL, prompt="x", temperature=-1)
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        client.embeddings.create(model="classification", input="x", dimensions=7)


def test_errors_name_the_field_that_is_wrong(server: Server) -> None:
    def error(path: str, body: Any) -> tuple[int, str | None, str | None, str]:
        answer = server.post(path, body)
        found = answer.json()["error"]
        return answer.status_code, found["param"], found["code"], found["message"]

    about = {"model": MODEL, "prompt": "x"}
    assert error("/v1/completions", {**about, "prompt": ["a", 5]})[::3] == (400, "prompt.1: Input should be a valid string")
    assert error("/v1/completions", {**about, "n": 0})[:2] == (400, "n")
    assert error("/v1/completions", {**about, "n": 2, "best_of": 3})[:2] == (400, "best_of")
    assert error("/v1/completions", {**about, "logit_bias": {"5": -100}})[:2] == (400, "logit_bias")
    assert error("/v1/embeddings", {"model": "classification", "input": [[1, 2]]})[:2] == (400, "input")
    assert error("/v1/completions", {**about, "model": "gpt-4"})[:3] == (404, None, "model_not_found")
    assert error("/v1/chat/completions", about)[:3] == (404, None, None)
    assert (
        "not valid JSON" in server.http.post("/v1/completions", content=b"{", headers={"Content-Type": "application/json"}).text
    )
    assert "Content-Type: application/json" in server.http.post("/v1/completions", content=b"{}").text


def test_what_clients_of_other_servers_send(client: openai.OpenAI, server: Server) -> None:
    about: dict[str, Any] = {"max_tokens": 8, "seed": 2}
    alone = client.completions.create(model=MODEL, prompt="the sun", n=2, best_of=2, logit_bias={}, **about)
    assert len(alone.choices) == 2
    best = client.completions.create(model=MODEL, prompt="the sun", temperature=0, **about).choices[0].text
    one = client.completions.create(model=MODEL, prompt="the sun", extra_body={"top_k": 1, "min_p": 0.0}, **about)
    assert one.choices[0].text == best  # vLLM's setting
    for prompt in ({}, {"prompt": None}):  # the beginning of any text, of the first language model
        found = server.ask("/v1/completions", {**about, **prompt})
        assert found["usage"]["prompt_tokens"] == 0
        assert found["model"] == MODEL


def test_a_stream_that_cannot_begin_has_a_status_of_its_own(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="vocabulary"):
        list(client.completions.create(model=MODEL, prompt=[10_000_000], stream=True))


def test_the_asynchronous_client_works_too(server: Server, writer: Writer) -> None:
    async def all_at_once() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="unused") as client:
            prompts = [f"the {word}" for word in ("sun", "rain", "wind", "snow", "cloud", "river")]
            calls = [client.completions.create(model=MODEL, prompt=p, max_tokens=15, temperature=0) for p in prompts]
            whole = [answer.choices[0].text for answer in await asyncio.gather(*calls)]
            stream = await client.completions.create(model=MODEL, prompt=prompts[0], max_tokens=15, temperature=0, stream=True)
            streamed = "".join([event.choices[0].text async for event in stream])
            assert streamed == whole[0]
            vectors = await client.embeddings.create(model="classification", input=["a", "b"])
            assert len(vectors.data) == 2
            return whole

    found = asyncio.run(all_at_once())
    prompts = [f"the {word}" for word in ("sun", "rain", "wind", "snow", "cloud", "river")]
    assert found == writer.generate(prompts, length=15, beam=1)
