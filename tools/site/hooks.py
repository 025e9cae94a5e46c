"""Hooks that mkdocs calls during a build: see `hooks` in mkdocs.yml.

They add the pages that are generated from the code, include the pages at the root of the
repository, and append unlisted pages to the navigation.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tools.site.pages import PAGES

ROOT = Path(__file__).parents[2]
INCLUDED = {
    "architecture.md": "ARCHITECTURE.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
"""Pages of the site that are files at the root of the repository."""
DEFAULT_SECTIONS = {"*.md": "How to", "internals/*.md": "Inside"}
"""Navigation sections of pages that the navigation does not list."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Append the pages that the navigation does not list."""
    navigation: list[dict[str, Any]] = config.nav or []
    listed = set(_listed_pages(navigation))
    docs = Path(config.docs_dir)
    for pattern, title in DEFAULT_SECTIONS.items():
        (section,) = (each[title] for each in navigation if title in each)
        pages = sorted(page.relative_to(docs).as_posix() for page in docs.glob(pattern))
        section += [page for page in pages if page not in listed]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and the included ones."""
    for path, generate in PAGES.items():
        files.append(File.generated(config, path, content=generate()))
    for path, name in INCLUDED.items():
        text = _with_links_from_docs((ROOT / name).read_text())
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links to included pages to the site."""
    for path, name in INCLUDED.items():
        markdown = re.sub(rf"\]\((?:\.\./)+{name}", f"](/{path}", markdown)
    return markdown


def _with_links_from_docs(text: str) -> str:
    """Rewrite the links of a page that moves from the root into docs."""
    return re.sub(r"\]\(docs/", "](", text)


def _listed_pages(navigation: Any) -> list[str]:
    if isinstance(navigation, str):
        return [navigation]
    entries = navigation.values() if isinstance(navigation, dict) else navigation
    return [page for entry in entries for page in _listed_pages(entry)]
