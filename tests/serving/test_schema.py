"""The service against its own OpenAPI schema: whatever is sent, answers follow the schema, and there are no internal errors."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from servers import Server

EXAMPLES = 3 * int(os.environ.get("HEEDFUL_FUZZ", "1"))  # of every path
CHECKS: list[Any] = [content_type_conformance, response_schema_conformance, status_code_conformance]


def send_all(server: Server, mode: str) -> Counter[int]:
    """Requests that fit the schema, or that do not, to every path; returns how often each status was answered."""
    statuses: Counter[int] = Counter()
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        cases = found.ok().as_strategy(generation_mode=schemathesis.GenerationMode[mode])

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(cases)
        def send(case: Any) -> None:
            answer = case.call(base_url=server.url, timeout=60)
            statuses[answer.status_code] += 1
            assert answer.status_code < 500 or answer.status_code == 503, answer.text
            assert "Traceback" not in answer.text
            assert "site-packages" not in answer.text
            case.validate_response(answer, checks=CHECKS)

        with suppress(Unsatisfiable):  # nothing can be wrong with a path that takes nothing
            send()
    return statuses


def test_whatever_is_sent_is_answered_as_the_schema_says(server: Server) -> None:
    fitting, others = send_all(server, "POSITIVE"), send_all(server, "NEGATIVE")
    assert fitting[200] > 10
    assert others[422] + others[400] > 20
    assert server.http.get("/ready").status_code == 200
    assert server.metric("heedful_worker_deaths_total") == 0
    both = fitting + others
    print(f"schema: {both.total():,} requests, {dict(sorted(both.items()))}")
