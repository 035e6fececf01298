"""Recognises files that are not plain UTF-8 text (other encodings, documents, archives, markup) and says what to do."""

from __future__ import annotations

import codecs
import io
import re
import shlex
import zipfile
from collections.abc import Mapping

from heedful.errors import HeedfulError

WESTERN = frozenset("àáâãäåæçèéêëìíîïñòóôõöøùúûüýÿßœÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝŸŒ«»‹›„“”‘’‚–—…€£§°©®¡¿ºª·×")
UTF_16 = {codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}
# First bytes of a file → what it is, and what to do with it.
SIGNATURES: Mapping[bytes, str] = {
    b"%PDF": "a PDF; extract its text with `pdftotext FILE` (from poppler)",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old Office document; save it as plain text (UTF-8)",
    b"{\\rtf": "a rich-text document; save it as plain text (UTF-8)",
    b"\x89PNG\r\n\x1a\n": "an image (PNG), not text",
    b"\xff\xd8\xff": "an image (JPEG), not text",
    b"GIF8": "an image (GIF), not text",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive; unpack it first",
    b"\xfd7zXZ\x00": "compressed with xz; unpack it with `xz -dk FILE`",
    b"BZh": "compressed with bzip2; unpack it with `bzip2 -dk FILE`",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it with `zstd -d FILE`",
    b"\x7fELF": "a program, not text",
    b"SQLite format 3\x00": "a database, not text",
}
OFFICE = {"word/": "a Word document", "xl/": "a spreadsheet", "ppt/": "a presentation", "content.xml": "an OpenDocument file"}
MARKUP = {
    "a translation memory (TMX)": re.compile(rb"<tmx\b"),
    "XLIFF": re.compile(rb"<xliff\b"),
    "HTML": re.compile(rb"<!doctype html\b|<html\b(?!.*</html>)", re.IGNORECASE),
    "XML": re.compile(rb"<\?xml\b"),
}
PO_ENTRY = re.compile(rb'^msgid ".*\n(?:".*\n)*msgstr(?:\[0\])? "', re.MULTILINE)


def refuse_non_text(head: bytes, name: str) -> None:
    """Raise an error when a file that begins with these bytes is not text in an ASCII-compatible encoding."""
    for mark, encoding in UTF_16.items():
        if head.startswith(mark):
            raise HeedfulError(other_encoding(name, encoding))
    if head.startswith(b"PK\x03\x04"):
        raise HeedfulError(f"{name} is {_zip_content(head)}")
    for signature, what in SIGNATURES.items():
        if head.startswith(signature):
            raise HeedfulError(f"{name} is {what.replace('FILE', shlex.quote(name))}")
    zeros = head.count(0)
    if zeros:
        even, odd = head[::2].count(0), head[1::2].count(0)
        if zeros >= max(2, len(head) // 4) and min(even, odd) <= zeros // 10:  # every other byte: ASCII in UTF-16
            raise HeedfulError(other_encoding(name, "UTF-16LE" if odd > even else "UTF-16BE"))
        if zeros > max(8, len(head) // 100):
            raise HeedfulError(f"{name} is not text: it has {zeros:,} NUL bytes in its first {len(head):,}")


def refuse_markup(head: bytes, name: str) -> None:
    """Raise an error when a file with these first bytes is markup, where plain lines are needed."""
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()
    found = None
    if start.startswith(b"<"):
        # The XML declaration comes first and says nothing about the content: look for the kind of document.
        found = next((what for what, pattern in MARKUP.items() if pattern.search(start[:4096].split(b"\n\n")[0])), None)
        if found not in (None, "XML") and not start.startswith((b"<?xml", b"<!", b"<tmx", b"<xliff", b"<html", b"<HTML")):
            found = None  # a sentence that begins with another tag
    elif PO_ENTRY.search(start):
        found = "a gettext catalogue (PO)"
    if found:
        raise HeedfulError(
            f"{name} is {found}, not plain lines; heedful does not read this format: extract its text, one sentence per line"
        )


def refuse_other_encoding(head: bytes, name: str) -> None:
    """Raise an error when most lines with non-ASCII characters are not valid UTF-8."""
    lines = [line for line in head.split(b"\n")[: -1 if head.count(b"\n") else None] if not line.isascii()]
    broken = [line for line in lines if not is_utf8(line)]
    if len(broken) > len(lines) - len(broken):
        raise HeedfulError(other_encoding(name, guess_encoding(b"\n".join(broken))))


def is_utf8(line: bytes) -> bool:
    """Whether bytes are valid UTF-8."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def other_encoding(name: str, encoding: str | None) -> str:
    """The error message for a file in another encoding, with the command that converts it."""
    if encoding is None:
        return f"{name} is not UTF-8 text, nor in any encoding heedful recognises; convert it to UTF-8"
    convert = f"iconv -f {encoding} -t UTF-8"
    quoted, plain = shlex.quote(name), name.removesuffix(".gz")
    command = f"{convert} {quoted}" if plain == name else f"gzip -dc {quoted} | {convert}"
    return f"{name} is not UTF-8; it looks like {encoding}. Convert it: {command} > {shlex.quote(plain + '.utf8')}"


def guess_encoding(sample: bytes) -> str | None:
    """The most probable encoding of text that is not UTF-8, by its iconv name; None if nothing fits."""
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_exclusion=["utf_7"]).best()
    if best is None:
        return None
    # The code pages of Western and Central Europe differ only in some letters; the Western one is far more common.
    letters = {c for c in sample.decode("cp1252", "replace") if not c.isascii()}
    if letters <= WESTERN or "cp1252" in best.could_be_from_charset:
        return "CP1252"
    known = {"euc_jis_2004": "EUC-JP", "euc_jisx0213": "EUC-JP", "shift_jis_2004": "SHIFT_JIS", "shift_jisx0213": "SHIFT_JIS"}
    name = known.get(best.encoding, best.encoding.upper().replace("_", "-"))
    return name.replace("ISO8859", "ISO-8859").replace("LATIN-1", "ISO-8859-1").replace("UTF-16-", "UTF-16")


def _zip_content(head: bytes) -> str:
    """What a ZIP archive with these first bytes is."""
    try:
        names = zipfile.ZipFile(io.BytesIO(head)).namelist()
    except (zipfile.BadZipFile, ValueError, EOFError):  # a truncated archive: each file is preceded by its name, too
        names = [found.decode("utf-8", "replace") for found in re.findall(rb"PK\x03\x04.{26}([\w./\[\]-]{4,})", head, re.DOTALL)]
    for inside, what in OFFICE.items():
        if any(name.startswith(inside) for name in names):
            return f"{what}, not text; save it as plain text (UTF-8)"
    return "a ZIP archive; unpack it first"
