"""The page's head: its name, and what is true of this page.

The value that reaches the script: {"words": str, "problems": [str]}.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from vitdemo.page.components import Drawing


@dataclass(frozen=True)
class Facts:
    """`words` beside the name, and a sentence for each thing that is damaged or missing."""

    words: str
    problems: Sequence[str] = ()


class Header(Drawing):
    """See the module."""

    def drawn(self, value: Facts) -> dict:
        return asdict(value)
