"""The texts of a page are found where a browser shows them; whatever is sent comes back, in time that grows with its length."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.serving.html_text import HtmlText

PIECES = ["<", ">", "</", "<b", "<b>", "</b>", "<!--", "-->", "<script>", "</script", "<pre>", "</pre>", "=", "'", '"', " ", "x"]


@given(st.lists(st.sampled_from([*PIECES, "&lt;", "\u00a0"]), max_size=25).map("".join))
def test_a_page_without_entities_comes_back_as_it_was(page: str) -> None:
    found = HtmlText(page)
    assert len(found.texts) == sum(isinstance(part, int) for part in found.parts)
    if "&" not in page and "  " not in page:
        whole = "".join(part if isinstance(part, str) else found.texts[part] for part in found.parts)
        assert whole == page


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("<p>one <b>two</b> three", ["one", "two", "three"]),
        ("one\n  line", ["one line"]),
        ("5 < 6 &amp; 7", ["5 < 6 & 7"]),
        ('<p title="a > b">c</p>', ["c"]),
        ('<a x="never closed>one</a>', ["one"]),
        ("<script>let a = '<p>one</p>';</script>two", ["two"]),
        ("<style>one", []),
        ("<pre>a <pre>b</pre> c</pre>one", ["one"]),
        ("<b translate=no>a<i>b</i></b>one<br translate='no'>two", ["one", "two"]),
        ("<svg><path/></svg>one<!-- two --><![CDATA[three]]><?php four ?>five", ["one", "five"]),
        ("one <b", ["one"]),
        ("", []),
    ],
)
def test_texts(page: str, texts: list[str]) -> None:
    assert HtmlText(page).texts == texts


@pytest.mark.parametrize(
    "part", ["<a ", "<a x=", "<a x='", "<!--", "</", "<![", "<a/", "&#", "<pre><b></i>", "<script></", "<textarea>"]
)
def test_time_grows_with_the_length_and_no_faster(part: str) -> None:
    begun = time.process_time()
    HtmlText(part * (100_000 // len(part)))
    assert time.process_time() - begun < 5
