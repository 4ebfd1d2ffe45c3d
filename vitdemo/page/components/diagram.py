"""Diagram of a model's parts in the order of the forward pass, with sizes and links.

A handler returns a `DiagramData`, or a message if there is nothing to draw. The payload:

    {"words": str, "repeated": str, "parameters": int, "macs": int,
     "parts": [{"title", "description", "parameters", "macs", "repeats",
                "link": {"title", "part"} | {"title", "section"} | None}, ...]}

`link` names a part of "Inside the model" or a section of Explore. `parameters` and `macs` of a part
are sums over all `repeats` copies.
"""

from dataclasses import asdict, dataclass

from vitdemo.page.components import View


@dataclass(frozen=True)
class DiagramBox:
    """Box of the diagram: a part of a model, or a sequence of `repeats` such parts."""

    title: str
    description: str
    parameters: int
    macs: int
    repeats: int = 1
    link: dict[str, str] | None = None


@dataclass(frozen=True)
class DiagramData:
    """Content of the diagram; `repeated` is the caption of boxes with several `repeats`."""

    boxes: list[DiagramBox]
    words: str
    repeated: str = ""


class DiagramView(View):
    """Diagram of a model's parts."""

    def to_payload(self, value: DiagramData) -> dict:
        return {
            "words": value.words,
            "repeated": value.repeated,
            "parameters": sum(box.parameters for box in value.boxes),
            "macs": sum(box.macs for box in value.boxes),
            "parts": [asdict(box) for box in value.boxes],
        }
