"""A model's parts in the order of the forward pass, with their sizes and links to explanations.

A handler returns a `Drawn`, or a message if there is nothing to draw. The payload:

    {"words": str, "repeated": str, "parameters": int, "macs": int,
     "parts": [{"title", "words", "parameters", "macs", "times",
                "opens": {"title", "part"} | {"title", "section"} | None}, ...]}

`opens` names a part of "Inside the model" or a section of Explore. Both sizes are totals over all
`times` copies of a part.
"""

from dataclasses import asdict, dataclass

from vitdemo.page.components import Drawing


@dataclass(frozen=True)
class Box:
    """One part of a model; `times` copies of it form a sequence."""

    title: str
    words: str
    parameters: int
    macs: int
    times: int = 1
    opens: dict[str, str] | None = None


@dataclass(frozen=True)
class Drawn:
    """All `boxes` in order; `repeated` is the caption of the parts with several `times`."""

    boxes: list[Box]
    words: str
    repeated: str = ""


class Diagram(Drawing):
    """Diagram of a model, see the module."""

    def drawn(self, value: Drawn) -> dict:
        return {
            "words": value.words,
            "repeated": value.repeated,
            "parameters": sum(box.parameters for box in value.boxes),
            "macs": sum(box.macs for box in value.boxes),
            "parts": [asdict(box) for box in value.boxes],
        }
