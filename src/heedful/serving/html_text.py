"""The texts of an HTML page, to be translated and put back in their places.

Pages come from strangers: whatever is sent is read in one pass, in time that grows with its length and no faster. What is
broken stays as it is.
"""

from __future__ import annotations

import html
import re

UNTOUCHED = {"script", "style", "code", "pre", "textarea", "noscript", "svg", "math", "kbd", "samp", "var"}
RAW = {"script", "style", "textarea", "xmp", "iframe", "noembed", "noframes"}  # in which there are no tags
EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

# Quotes count after "=" only. Nothing is tried twice (`++`), so that thousands of unfinished tags take no longer.
TAG = re.compile(r"""<(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*+)(?P<rest>(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+'|))*+)>""")
NOT_TRANSLATED = re.compile(r"""\stranslate\s*+=\s*+["']?no(?:["'\s/]|$)""", re.IGNORECASE)
SPACE = " \t\r\n\f"  # what HTML shows as one space; not the space that does not break
SPACES = re.compile(f"[{SPACE}]+")


class HtmlText:
    """A page as its tags, which stay as they are, and its texts."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.parts: list[str | int] = []  # markup, or the number of a text
        self.texts: list[str] = []  # without entities, on one line each
        self.untouched = ""  # the open element that is not translated, if there is one
        self.depth = 0  # how many of that name are open
        at = begin = 0  # of what is read, and of the text before it
        while (at := page.find("<", at)) >= 0:
            end = self._markup_end(at)
            if end == at:  # a sign like any other
                at += 1
                continue
            self._text(page[begin:at])
            self.parts.append(page[at:end])
            at = begin = self._follow(at, end)
        self._text(page[begin:])

    def with_texts(self, texts: list[str]) -> str:
        """The page with other texts."""
        return "".join(part if isinstance(part, str) else html.escape(texts[part], quote=False) for part in self.parts)

    def _markup_end(self, at: int) -> int:
        """Where the markup ends that begins with this "<"; the page's end if it never does; `at` if it is a text."""
        page = self.page
        if page.startswith("<!--", at):
            return self._after("-->", at + 4)
        following = page[at + 1 : at + 3]
        if (following[:1].isascii() and following[:1].isalpha()) or (following[:1] == "/" and following[1:].isalpha()):
            tag = TAG.match(page, at)
            return tag.end() if tag else len(page)
        return self._after(">", at) if following[:1] in ("!", "?", "/") and following else at

    def _after(self, wanted: str, at: int) -> int:
        found = self.page.find(wanted, at)
        return len(self.page) if found < 0 else found + len(wanted)

    def _follow(self, at: int, end: int) -> int:
        """Enter or leave an element that is not translated; returns where to read on."""
        tag = TAG.match(self.page, at)
        if not tag:
            return end
        name = tag["name"].lower()
        if tag["end"]:
            self.depth -= name == self.untouched
            if not self.depth:
                self.untouched = ""
            return end
        if name in RAW:
            closing = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(self.page, end)
            begin = closing.start() if closing else len(self.page)
            self.parts.append(self.page[end:begin])
            return begin
        if name in EMPTY or tag["rest"].endswith("/"):
            return end
        if self.untouched:
            self.depth += name == self.untouched
        elif name in UNTOUCHED or NOT_TRANSLATED.search(tag["rest"]):
            self.untouched, self.depth = name, 1
        return end

    def _text(self, written: str) -> None:
        """What stands between two tags."""
        inner = written.strip(SPACE)
        if not inner or self.untouched:
            self.parts.append(written)
            return
        start = written.index(inner)
        self.parts += [written[:start], len(self.texts), written[start + len(inner) :]]
        self.texts.append(SPACES.sub(" ", html.unescape(inner)))
