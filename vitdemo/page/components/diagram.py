"""A model's parts in the order of its pass, with their sizes; each opens what explains it.

A handler returns a `Drawn`, or a sentence that says why there is none. The value that reaches the
script:

    {"words": str, "repeated": str, "parameters": int, "macs": int,
     "parts": [{"title", "words", "parameters", "macs", "times",
                "opens": {"title", "part"} | {"title", "section"} | None}, ...]}

`opens` names a part of "Inside" or a section of Look; both sizes are of all `times` together.
"""

from dataclasses import asdict, dataclass

from vitdemo.page.components import Drawing


@dataclass(frozen=True)
class Box:
    title: str
    words: str
    parameters: int
    macs: int
    times: int = 1
    opens: dict[str, str] | None = None


@dataclass(frozen=True)
class Drawn:
    """`boxes` from first to last; `repeated` says of those with several `times` what they make."""

    boxes: list[Box]
    words: str
    repeated: str = ""


class Diagram(Drawing):
    """See the module."""

    def drawn(self, value: Drawn) -> dict:
        return {
            "words": value.words,
            "repeated": value.repeated,
            "parameters": sum(box.parameters for box in value.boxes),
            "macs": sum(box.macs for box in value.boxes),
            "parts": [asdict(box) for box in value.boxes],
        }
