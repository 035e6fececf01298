"""What MkDocs does besides: README and its neighbours become pages of the site, and files of benchmarks can be linked."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "README.ko.md": "index.ko.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LINKED = ("benchmarks/*.py", "benchmarks/results/*", "deploy/*", "LICENSE", "constraints.txt", "src/heedful/recipes/*.toml")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and files that live outside docs/."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=links_from_root(text)))
    for pattern in LINKED:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Links that leave docs/ lead to the same files in the site."""
    return links_from_root(re.sub(r"\]\((\.\./)(?!\.\./)(?=[A-Zbds])", "](", markdown))


def links_from_root(text: str) -> str:
    """Links of a file in the root of the repository as those of a page in the root of the site."""
    text = re.sub(r"\]\(docs/", "](", text)
    for name, page in PAGES.items():
        text = text.replace(f"]({name}", f"]({page}")
    return text
