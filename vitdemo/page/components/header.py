"""Page header: name, device, number of models, and problems.

The script receives {"words": str, "problems": [str]}.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from vitdemo.page.components import Drawing


@dataclass(frozen=True)
class Facts:
    """A text next to the name, and one sentence per damaged or missing run."""

    words: str
    problems: Sequence[str] = ()


class Header(Drawing):
    """Component described in the module docstring."""

    def drawn(self, value: Facts) -> dict:
        return asdict(value)
