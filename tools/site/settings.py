"""Table of the keys of a configuration file."""

from typing import Any

import msgspec

from tools.site.docstrings import MissingDocstring, field_docstrings


def table(struct: type[msgspec.Struct], prefix: str = "") -> str:
    """Return a table with one line per key: its name, type, default and meaning."""
    texts = field_docstrings(struct)
    lines = ["| key | type | default | |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(struct):
        name = f"{prefix}{field.name}"
        text = texts[field.name]
        if text is None:
            raise MissingDocstring(f"{struct.__name__}.{field.name} has no text below it")
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            kind, default = "table", "below"
        else:
            kind, default = _type(field.type), _default(field)
        lines.append(f"| `{name}` | {kind} | {default} | {' '.join(text.split())} |")
    return "\n".join(lines)


def _type(kind: Any) -> str:
    choices = getattr(kind, "__args__", ())
    if kind == dict[int, str] or kind == dict[str, str]:
        return "table of texts"
    if choices and all(isinstance(each, str) for each in choices):
        return " or ".join(f'`"{each}"`' for each in choices)
    return {"str": "text", "int": "integer", "float": "number", "bool": "`true` or `false`"}.get(
        getattr(kind, "__name__", ""), str(kind)
    )


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if field.default is msgspec.NODEFAULT:
        return "none"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    if isinstance(field.default, str):
        return f'`"{field.default}"`' if field.default else "none"
    return f"`{field.default}`"
