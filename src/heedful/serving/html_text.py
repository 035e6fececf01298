"""The texts of an HTML page, to be translated and put back in their places."""

from __future__ import annotations

import html
from html.parser import HTMLParser

UNTOUCHED = {"script", "style", "code", "pre", "textarea", "noscript", "svg", "math", "kbd", "samp", "var"}
EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class HtmlText(HTMLParser):
    """A page as its tags, which stay as they are, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str | int] = []  # markup, or the number of a text
        self.texts: list[str] = []  # without entities
        self.pending = ""
        self.untouched: list[str] = []  # open elements that are not translated
        self.feed(page)
        self.close()
        self._flush()

    def with_texts(self, texts: list[str]) -> str:
        """The page with other texts."""
        return "".join(part if isinstance(part, str) else html.escape(texts[part], quote=False) for part in self.parts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._markup(self.get_starttag_text() or "")
        kept = tag in UNTOUCHED or ("translate", "no") in attrs
        if tag not in EMPTY and (kept or self.untouched):
            self.untouched.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._markup(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self._markup(f"</{tag}>")
        if tag in self.untouched:
            while self.untouched.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self.untouched:
            self._markup(data)
        else:
            self.pending += data

    def handle_entityref(self, name: str) -> None:
        self._entity(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._entity(f"&#{name};")

    def _entity(self, written: str) -> None:
        if self.untouched:
            self._markup(written)
        else:
            self.pending += html.unescape(written)

    def handle_comment(self, data: str) -> None:
        self._markup(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self._markup(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        self._markup(f"<?{data}>")

    def unknown_decl(self, data: str) -> None:
        self._markup(f"<![{data}]>")

    def _markup(self, written: str) -> None:
        self._flush()
        self.parts.append(written)

    def _flush(self) -> None:
        if self.pending.strip():
            self.parts.append(len(self.texts))
            self.texts.append(self.pending)
        elif self.pending:
            self.parts.append(html.escape(self.pending, quote=False))
        self.pending = ""
