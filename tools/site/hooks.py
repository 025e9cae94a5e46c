"""What mkdocs calls while it builds the site: see `hooks` in mkdocs.yml.

It adds the pages that are made from the code, takes in those that stand at the root of the
repository, and finds a place for pages that the navigation does not name.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tools.site.pages import PAGES

ROOT = Path(__file__).parents[2]
TAKEN_IN = {"architecture.md": "ARCHITECTURE.md", "changelog.md": "CHANGELOG.md"}
"""Pages of the site that are files at the root."""
ELSEWHERE = {"*.md": "How to", "internals/*.md": "Inside"}
"""The sections for pages that the navigation does not name."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Pages that were written after the navigation are found all the same."""
    navigation: list[dict[str, Any]] = config.nav or []
    named = set(_named(navigation))
    docs = Path(config.docs_dir)
    for pattern, title in ELSEWHERE.items():
        (section,) = (each[title] for each in navigation if title in each)
        found = sorted(page.relative_to(docs).as_posix() for page in docs.glob(pattern))
        section += [page for page in found if page not in named]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made, and what is taken in."""
    for path, made in PAGES.items():
        files.append(File.generated(config, path, content=made()))
    for path, name in TAKEN_IN.items():
        files.append(File.generated(config, path, content=_moved((ROOT / name).read_text())))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to what was taken in lead to the site."""
    for path, name in TAKEN_IN.items():
        markdown = re.sub(rf"\]\((?:\.\./)+{name}", f"](/{path}", markdown)
    return markdown


def _moved(text: str) -> str:
    """From the root into docs: what was below docs is beside it now."""
    return re.sub(r"\]\(docs/", "](", text)


def _named(navigation: Any) -> list[str]:
    if isinstance(navigation, str):
        return [navigation]
    inside = navigation.values() if isinstance(navigation, dict) else navigation
    return [name for each in inside for name in _named(each)]
