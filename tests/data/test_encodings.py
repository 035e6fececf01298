"""Files that are not plain UTF-8 text are recognised, and the command in the message really converts them."""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.data.drops import Drops
from heedful.data.encodings import refuse_markup, refuse_non_text, refuse_other_encoding
from heedful.data.lines import raw_lines, read_lines
from heedful.data.parallel import ParallelFiles
from heedful.data.plain_text import BLOCK, blocks_of
from heedful.errors import HeedfulError

TEXTS = {
    "cp949": "안녕하세요 세계. 오늘은 날씨가 좋습니다.\n나는 학교에 갑니다.\n",
    "latin-1": "Ein Mann läuft über die Straße.\nDie Frau öffnet die Tür für Gäste.\n",
    "cp1252": "L’été à Paris — “très” beau, naïve café.\n",
    "shift_jis": "こんにちは世界。今日は天気がいいです。\n",
    "euc_jp": "こんにちは世界。今日は天気がいいです。\n今日は学校へ行きます。\n",
    "gb18030": "你好，世界。今天天气很好，我们去公园。\n",
    "big5": "你好，世界。今天天氣很好，我們去公園。\n",
    "cp1251": "Привет, мир. Сегодня хорошая погода.\n",
    "utf-16": "Hello world\nsecond line\n",
    "utf-16-le": "Hello world\nsecond line\n",
    "utf-16-be": "안녕 hello\nsecond line\n",
}


def refusal(path: Path) -> str:
    with pytest.raises(HeedfulError) as caught:
        list(read_lines(path))
    return str(caught.value)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("encoding", TEXTS)
def test_the_encoding_is_named_and_the_command_converts_the_file(encoding: str, zipped: bool, tmp_path: Path) -> None:
    content = (20 * TEXTS[encoding]).encode(encoding)
    path = tmp_path / ("my text.gz" if zipped else "my text")
    path.write_bytes(gzip.compress(content) if zipped else content)
    message = refusal(path)
    assert message.startswith(f"{path} is not UTF-8; it looks like ")
    subprocess.run(["bash", "-c", message.split("Convert it: ")[1]], check=True, cwd=tmp_path)
    assert "\n".join(read_lines(tmp_path / "my text.utf8")).strip() == (20 * TEXTS[encoding]).strip()


def office(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, "text " * 99)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (office("[Content_Types].xml", "word/document.xml"), "a Word document, not text; save it as plain text"),
        (office("xl/workbook.xml"), "a spreadsheet, not text"),
        (office("mimetype", "content.xml"), "an OpenDocument file, not text"),
        (office("a.txt"), "a ZIP archive; unpack it first"),
        (b"%PDF-1.7\n%\xe2\xe3", "a PDF; extract its text with `pdftotext "),
        (b"\x89PNG\r\n\x1a\n" + bytes(99), "an image (PNG), not text"),
        (b"\xfd7zXZ\x00abc", "compressed with xz; unpack it with `xz -dk "),
        (bytes(range(64)) * 9, "not text: it has 9 NUL bytes"),
        (b'<?xml version="1.0"?>\n<tmx version="1.4"><body/></tmx>', "a translation memory (TMX), not plain lines"),
        (b'<?xml version="1.0"?>\n<xliff version="1.2"/>', "XLIFF, not plain lines"),
        (b"<!DOCTYPE html>\n<html><body>text</body></html>", "HTML, not plain lines"),
        (b"<html>\n<head>\n", "HTML, not plain lines"),
        (b'<?xml version="1.0"?>\n<corpus/>', "XML, not plain lines"),
        (b'# header\nmsgid ""\nmsgstr ""\n"Language: de\\n"\n\nmsgid "yes"\nmsgstr "ja"\n', "a gettext catalogue (PO)"),
    ],
)
def test_files_that_are_not_plain_text_are_named(content: bytes, what: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert refusal(tmp_path / "file").startswith(f"{tmp_path / 'file'} is {what}")


@pytest.mark.parametrize(
    "content",
    [b"<b>bold</b> text\n", b"<html>one</html>\n", b"< 3 and > 2\n", b"msgid is a keyword\n", b"a\x00b\n"],
)
def test_text_that_merely_resembles_another_format_is_accepted(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert list(read_lines(tmp_path / "file")) == [content.decode().rstrip("\n")]


@given(st.text())
def test_utf8_text_is_never_mistaken_for_another_encoding(text: str) -> None:
    for length in (8, 100):
        refuse_other_encoding((text * length).encode(), "file")


@given(st.binary())
def test_arbitrary_bytes_raise_nothing_but_heedful_errors(content: bytes) -> None:
    for refuse in (refuse_non_text, refuse_markup, refuse_other_encoding):
        with suppress(HeedfulError):
            refuse(content, "file")


def test_a_language_model_may_learn_from_markup(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<!DOCTYPE html>\n<html></html>\n")
    assert "".join(blocks_of(tmp_path / "page.html")).startswith("<!DOCTYPE")


@pytest.mark.parametrize("line", ["word " * 60_000, "x" * 300_000, "한국어 " * 50_000])
def test_a_very_long_line_is_cut_into_blocks_that_add_up_to_it(line: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(f"{line}\nnext\n", encoding="utf-8")
    blocks = list(blocks_of(tmp_path / "text"))
    assert "".join(blocks) == f"{line}\nnext\n"
    assert max(map(len, blocks)) <= 2 * BLOCK


def test_a_line_of_megabytes_is_dropped_and_counted(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tb\n" + "x" * 5_000_000 + "\ty\nc\td\n")
    drops = Drops()
    assert list(ParallelFiles(tmp_path / "pairs.tsv").read(drops)) == [("a", "b"), ("c", "d")]
    assert drops.describe() == "1 dropped: 1 longer than 100,000 characters (first: pairs.tsv line 2)"


def test_an_endless_line_is_refused_before_it_fills_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.data.lines.LONGEST_LINE", 1 << 20)
    assert re.match(r"/dev/zero is not text", refusal(Path("/dev/zero")))
    with pytest.raises(HeedfulError, match="has a line of more than 1 MB"):
        list(raw_lines(io.BytesIO(b"x" * (1 << 21)), "file"))
