"""A notebook file as the code of its cells. Knows the JSON of Jupyter's files; runs nothing."""

import json
from typing import Any


def code_of(text: str) -> str | None:
    """The code cells one after the other, without outputs; None if this is no notebook."""
    try:
        cells = json.loads(text)["cells"]
        return "\n\n".join(_source(cell) for cell in cells if cell["cell_type"] == "code")
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _source(cell: dict[str, Any]) -> str:
    """Lines in a list or one text; anything else raises TypeError."""
    lines = cell["source"]
    return lines if isinstance(lines, str) else "".join(lines)
