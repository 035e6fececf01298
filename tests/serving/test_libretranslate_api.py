"""LibreTranslate's own client, unchanged, against the service; and the details of its API that other clients rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from libretranslatepy import LibreTranslateAPI
from servers import Server, Start

from heedful.pipelines.translator import Translator


@pytest.fixture(scope="module")
def client(server: Server) -> LibreTranslateAPI:
    return LibreTranslateAPI(server.url)


@pytest.fixture(scope="module")
def translator(models: dict[str, Path]) -> Translator:
    return Translator.load(models["en-de"])


def test_the_client_translates(client: LibreTranslateAPI, translator: Translator) -> None:
    assert client.translate("1 2 3", "en", "de") == translator.translate("1 2 3")


def test_the_languages_are_those_of_all_models_and_ways_through_others(client: LibreTranslateAPI) -> None:
    found = {language["code"]: language for language in client.languages()}
    assert found["en"] == {"code": "en", "name": "English", "targets": ["de", "en", "fr"]}  # French through German
    assert found["de"]["targets"] == ["de", "fr"]
    assert found["fr"]["name"] == "French"


def test_without_a_direct_model_a_common_language_lies_between(client: LibreTranslateAPI, translator: Translator) -> None:
    assert client.translate("1 2 3", "en", "fr") == translator.translate(translator.translate("1 2 3"))


def test_the_client_detects(client: LibreTranslateAPI) -> None:
    (first, *_) = client.detect("The weather is very nice today and we are going for a walk.")
    assert first["language"] == "en"
    assert 50 < first["confidence"] <= 100
    assert client.detect("Das Wetter ist heute sehr schön, und wir gehen spazieren.")[0]["language"] == "de"


def test_what_the_client_asks_wrongly_is_refused(client: LibreTranslateAPI) -> None:
    for source, target in (("xx", "de"), ("en", "xx"), ("fr", "en")):
        with pytest.raises(HTTPError) as error:
            client.translate("1 2", source, target)
        assert error.value.code == 400


def test_json_and_forms_and_lists(server: Server, translator: Translator) -> None:
    expected = translator.translate(["1 2", "3 4 5"])
    body: dict[str, Any] = {"q": ["1 2", "3 4 5"], "source": "en", "target": "de"}
    assert server.ask("/translate", body) == {"translatedText": expected}
    assert server.http.post("/translate", data=body).json() == {"translatedText": expected}
    multipart = server.http.post("/translate", files={"q": (None, "1 2"), "source": (None, "en"), "target": (None, "de")})
    assert multipart.json() == {"translatedText": expected[0]}
    assert server.ask("/translate", {**body, "q": [""]}) == {"translatedText": [""]}
    lines = server.http.post("/translate", data={**body, "q": "1 2\r\n3 4 5"}).json()  # as browsers send them
    assert lines == {"translatedText": "\n".join(expected)}


def test_one_text_too_long_refuses_the_request(server: Server) -> None:
    answer = server.post("/translate", {"q": ["1 2", "9 " * 2200], "source": "en", "target": "de"})
    assert answer.status_code == 400
    assert "too long" in answer.json()["error"]


def test_a_text_may_have_more_sentences_than_a_request_may_have_texts(server: Server, translator: Translator) -> None:
    found = server.ask("/translate", {"q": "1 2 Ok.\n" * 60, "source": "en", "target": "de"})["translatedText"]
    assert found == f"{translator.translate('1 2 Ok.')}\n" * 60


def test_the_language_is_detected_when_asked_for(server: Server, translator: Translator) -> None:
    text = "the weather is very nice today and we are going for a walk"
    found = server.ask("/translate", {"q": text, "source": "auto", "target": "de"})
    assert found["detectedLanguage"]["language"] == "en"
    assert found["translatedText"] == translator.translate(text)
    several = server.ask("/translate", {"q": [text, text], "source": "auto", "target": "de"})
    assert [one["language"] for one in several["detectedLanguage"]] == ["en", "en"]


def test_alternatives_are_other_translations_best_first(server: Server, translator: Translator) -> None:
    found = server.ask("/translate", {"q": "1 2 3", "source": "en", "target": "de", "alternatives": 2})
    best = [translator.target_tokenizer.decode(h.tokens) for h in translator.search(["1 2 3"], n_best=3)[0]]
    assert [found["translatedText"], *found["alternatives"]] == list(dict.fromkeys(best))


def test_sentences_and_lines_are_translated_apart_and_put_together_again(server: Server, translator: Translator) -> None:
    one, two = translator.translate(["1 2 Ok.", "3 4"])
    found = server.ask("/translate", {"q": "1 2 Ok. \n\n  3 4\n", "source": "en", "target": "de"})
    assert found["translatedText"] == f"{one} \n\n  {two}\n"


def test_html_keeps_its_tags_and_what_is_no_text(server: Server, translator: Translator) -> None:
    kept = '<!-- note --><script>let x = "3 4";</script><b translate="no">5 6</b><br>'
    page = f'<p class="a">1 2</p>{kept}<i>7 &amp; 8</i>'
    one, two = translator.translate(["1 2", "7 & 8"])
    found = server.ask("/translate", {"q": page, "source": "en", "target": "de", "format": "html"})["translatedText"]
    escaped = two.replace("&", "&amp;")
    assert (
        found
        == f'<p class="a">{one}</p><!-- note --><script>let x = "3 4";</script><b translate="no">5 6</b><br><i>{escaped}</i>'
    )


def test_lines_of_html_are_no_sentences(server: Server, translator: Translator) -> None:
    body = {"q": "<p>\n  1 2\n  3 4\n</p> 5 < 6 <b>7", "source": "en", "target": "de", "format": "html"}
    first, second, third = translator.translate(["1 2 3 4", "5 < 6", "7"])
    assert server.ask("/translate", body)["translatedText"] == f"<p>\n  {first}\n</p> {second} <b>{third}"


def test_the_address_may_hold_what_the_form_does_not(server: Server, translator: Translator) -> None:
    answer = server.http.post("/translate?source=en&target=de", data={"q": "1 2"})
    assert answer.json() == {"translatedText": translator.translate("1 2")}


def test_the_language_of_a_short_text_is_that_of_its_neighbours(server: Server) -> None:
    texts = ["the weather is very nice today and we are going for a walk", "ok", "7"]
    found = server.ask("/translate", {"q": texts, "source": "auto", "target": "de"})["detectedLanguage"]
    assert [one["language"] for one in found] == ["en", "en", "en"]


def test_a_request_may_have_more_sentences_than_may_wait(start: Start, models: dict[str, Path], translator: Translator) -> None:
    server = start(f"en-de={models['en-de']}", "--workers", "1", "--max-queue", "5")
    found = server.ask("/translate", {"q": "1 2\n" * 30, "source": "en", "target": "de"})["translatedText"]
    assert found == f"{translator.translate('1 2')}\n" * 30


def test_files_are_translated_and_fetched(server: Server, translator: Translator) -> None:
    languages = {"source": "en", "target": "de"}
    sent = server.http.post("/translate_file", files={"file": ("my text.txt", b"1 2\n3 4\n")}, data=languages)
    url = sent.json()["translatedFileUrl"]
    assert url.startswith(server.url)
    fetched = server.http.get(url)
    assert fetched.text == "\n".join(translator.translate(["1 2", "3 4"])) + "\n"
    assert "attachment" in fetched.headers["content-disposition"]
    for name, content in (("a.pdf", b"x"), ("a.txt", b"\xff\xfe1"), ("", b"")):
        answer = server.http.post("/translate_file", files={"file": (name, content)}, data=languages)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith("Invalid request")
    assert server.http.get("/download_file/nothing.txt").status_code == 404


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"source": "en", "target": "de"}, "missing q parameter"),
        ({"q": "", "source": "en", "target": "de"}, "missing q parameter"),
        ({"q": [], "source": "en", "target": "de"}, "missing q parameter"),
        ({"q": "1", "target": "de"}, "missing source parameter"),
        ({"q": "1", "source": "en"}, "missing target parameter"),
        ({"q": "1", "source": "en", "target": "de", "format": "pdf"}, "format is not supported"),
        ({"q": "1", "source": "en", "target": "xx"}, "xx is not supported"),
        ({"q": "1", "source": "fr", "target": "en"}, "not available as a target"),
        ({"q": "1", "source": "en", "target": "de", "alternatives": "two"}, "alternatives parameter is not a number"),
        ({"q": "1", "source": "en", "target": "de", "alternatives": 16}, "alternatives parameter must be <= 15"),
        ({"q": ["1"] * 251, "source": "en", "target": "de"}, "at most 250"),
        ({"q": "1 " * 2600, "source": "en", "target": "de"}, "at most 5,000 characters"),
        ({"q": {"a": 1}, "source": "en", "target": "de"}, "not text"),
    ],
)
def test_errors_have_libretranslate_s_shape(server: Server, body: dict[str, Any], says: str) -> None:
    answer = server.post("/translate", body)
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]
    assert says in answer.json()["error"]


def test_pages_learn_what_the_service_can(server: Server) -> None:
    found = server.http.get("/frontend/settings").json()
    assert found["charLimit"] == 5000
    assert not found["keyRequired"]
    assert found["language"] == {"source": {"code": "en", "name": "English"}, "target": {"code": "de", "name": "German"}}


def test_a_key_may_be_in_the_body(server_with_keys: Server) -> None:
    server = server_with_keys
    assert LibreTranslateAPI(server.url, api_key="geheim").translate("1 2", "en", "de")
    for key, status in ((None, 400), ("wrong", 403)):
        with pytest.raises(HTTPError) as error:
            LibreTranslateAPI(server.url, api_key=key).translate("1 2", "en", "de")
        assert error.value.code == status
    assert LibreTranslateAPI(server.url).languages()
    assert "geheim" not in server.log.read_text(encoding="utf-8")


def test_a_model_without_languages_is_what_everybody_means(start: Start, trained: Any) -> None:
    server = start(f"numbers={trained('translation')}", "--workers", "1")
    expected = Translator.load(trained("translation")).translate("1 2 3")
    for source, target in (("auto", "und"), ("en", "de"), ("und", "und")):
        assert server.ask("/translate", {"q": "1 2 3", "source": source, "target": target})["translatedText"] == expected
