"""Kinds of state keys. Each kind reads untrusted values, and describes its keys to the browser.

`state_keys` declares all keys. `generated.js` contains descriptions of the keys, so that the store
reads the URL with the same limits and choices. `kit.Controls` builds gradio's controls.
"""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Generic, TypeVar

T = TypeVar("T")

MAX_TEXT_LENGTH = 300  # maximum number of characters of a text from the browser
MAX_NAMES = 1000  # maximum number of texts in a list from the browser
NOT_CHOSEN = ("",)  # value of a list from which the user has not chosen, unlike an empty list


@dataclass(frozen=True)
class StateKey(Generic[T]):
    """A key of the view state.

    Attributes:
        name: key in the state, and parameter of the URL.
        start: initial value; a control can have another one that depends on the runs.
        label, help: texts of its control.
        element: id of the element of its control.
        depends_on: keys on whose values the valid values depend.
        leader: key whose value is used while this key is empty.
        former: earlier names, which old links contain.
        former_values: earlier values in old links -> the new values.
        in_url: whether the URL contains the value.
        is_kept: whether the value is kept when a link opens another view.
    """

    kind: ClassVar[str]
    name: str
    start: T
    _: KW_ONLY
    label: str = ""
    help: str = ""
    element: str = ""
    depends_on: tuple["StateKey", ...] = ()
    leader: "StateKey | None" = None
    former: tuple[str, ...] = ()
    former_values: Mapping[str, str] = field(default_factory=dict, hash=False)
    in_url: bool = True
    is_kept: bool = False

    @property
    def element_id(self) -> str:
        return self.element or f"control-{self.name.replace('.', '-')}"

    def read(self, value: object) -> T:
        """Return the untrusted `value` from the browser if it is valid, else the start value."""
        raise NotImplementedError

    def describe(self) -> dict:
        """Return a description with which the browser reads the key and draws the control."""
        return {
            "kind": self.kind,
            "start": self.start,
            "label": self.label,
            "help": self.help,
            "leader": self.leader and self.leader.name,
            "former": self.former,
            "formerValues": self.former_values,
            "inUrl": self.in_url,
            "isKept": self.is_kept,
        }


@dataclass(frozen=True)
class TextKey(StateKey[str]):
    """A text, for example the name of a run. The payload function checks the text."""

    kind = "text"
    start: str = ""
    _: KW_ONLY
    max_length: int = MAX_TEXT_LENGTH

    def read(self, value: object) -> str:
        return value[: self.max_length] if isinstance(value, str) else self.start

    def describe(self) -> dict:
        return {**super().describe(), "maxLength": self.max_length}


@dataclass(frozen=True)
class ChoiceKey(StateKey[T]):
    """One of the values of `choices`, which maps each value to its label."""

    kind = "choice"
    _: KW_ONLY
    choices: Mapping[T, str] = field(hash=False)

    def read(self, value: object) -> T:
        return next((each for each in self.choices if each == value), self.start)

    def describe(self) -> dict:
        labels = {"choices": [*self.choices], "labels": [*self.choices.values()]}
        return {**super().describe(), **labels}


@dataclass(frozen=True)
class NumberKey(StateKey[float]):
    """A number from `low` to `high`. With `step` 1, the URL contains only whole numbers."""

    kind = "number"
    _: KW_ONLY
    low: float
    high: float
    step: float = 1

    def read(self, value: object) -> float:
        """Return a number, clamped to the limits, or the start value for any other value."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_valid = is_number and math.isfinite(value)
        return min(max(value, self.low), self.high) if is_valid else self.start

    def describe(self) -> dict:
        limits = {"low": self.low, "high": self.high, "step": self.step}
        return {**super().describe(), **limits}


@dataclass(frozen=True)
class FlagKey(StateKey[bool]):
    """True or False."""

    kind = "flag"
    start: bool = False

    def read(self, value: object) -> bool:
        return value if isinstance(value, bool) else self.start


@dataclass(frozen=True)
class NamesKey(StateKey[list[str]]):
    """A list of texts, for example names of runs. Fixed `choices` map names to labels."""

    kind = "names"
    start: tuple[str, ...] = NOT_CHOSEN
    _: KW_ONLY
    choices: Mapping[str, str] | None = field(default=None, hash=False)

    def read(self, value: object) -> list[str]:
        """Return the texts of a list, or [] for any other value."""
        values = value[:MAX_NAMES] if isinstance(value, list) else []
        return [each[:MAX_TEXT_LENGTH] for each in values if isinstance(each, str)]
