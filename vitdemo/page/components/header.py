"""Page header: name, device, number of models, and problems.

The script receives {"words": str, "problems": [str]}.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from vitdemo.page.components import View

TEXTS = {
    "skip": "Skip to the attention map",
    "title": "vitdemo",
    "purpose": "Explore how Vision Transformers learn and what they attend to.",
}


@dataclass(frozen=True)
class HeaderContent:
    """Content of the page header: a text, and one sentence per damaged or missing run."""

    words: str
    problems: Sequence[str] = ()


class HeaderView(View):
    """Page header with name, device and problems."""

    def to_payload(self, value: HeaderContent) -> dict:
        return asdict(value)
