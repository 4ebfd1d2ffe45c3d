"""Page header: name, device, number of models, and problems.

The script receives {"words": str, "problems": [str]}.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from vitdemo.page.components import View


@dataclass(frozen=True)
class HeaderContent:
    """A text next to the name, and one sentence per damaged or missing run."""

    words: str
    problems: Sequence[str] = ()


class HeaderView(View):
    """Component described in the module docstring."""

    def to_payload(self, value: HeaderContent) -> dict:
        return asdict(value)
