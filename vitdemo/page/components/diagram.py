"""A model's parts in the order of the forward pass, with their sizes and links to explanations.

A handler returns a `DiagramData`, or a message if there is nothing to draw. The payload:

    {"words": str, "repeated": str, "parameters": int, "macs": int,
     "parts": [{"title", "description", "parameters", "macs", "repeats",
                "link": {"title", "part"} | {"title", "section"} | None}, ...]}

`link` names a part of "Inside the model" or a section of Explore. Both sizes are totals over all
`repeats` copies of a part.
"""

from dataclasses import asdict, dataclass

from vitdemo.page.components import View


@dataclass(frozen=True)
class DiagramBox:
    """One part of a model; `repeats` copies of it form a sequence."""

    title: str
    description: str
    parameters: int
    macs: int
    repeats: int = 1
    link: dict[str, str] | None = None


@dataclass(frozen=True)
class DiagramData:
    """All `boxes` in order; `repeated` is the caption of the parts with several `repeats`."""

    boxes: list[DiagramBox]
    words: str
    repeated: str = ""


class DiagramView(View):
    """Diagram of a model, see the module."""

    def to_payload(self, value: DiagramData) -> dict:
        return {
            "words": value.words,
            "repeated": value.repeated,
            "parameters": sum(box.parameters for box in value.boxes),
            "macs": sum(box.macs for box in value.boxes),
            "parts": [asdict(box) for box in value.boxes],
        }
