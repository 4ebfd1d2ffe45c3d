"""The view state in a request of the browser, and the keys that each payload may read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from vitdemo.errors import VitdemoError
from vitdemo.page.image_sources import ImageRequest, parse_image_fields
from vitdemo.page.state_key import StateKey
from vitdemo.page.state_keys import IMAGE, MODEL

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable)


class ViewState:
    """Requested image, name of the model, and the values of further state keys by name.

    state[HEAD]  # the number of the chosen head, within its limits

    The values of `options` are unchecked values from the browser. A state for a payload contains
    only the keys that the payload `needs`. Reading another key raises `LookupError`, since the
    browser would not request the payload again after a change of this key.
    """

    def __init__(
        self,
        image: ImageRequest | None,
        model: str,
        options: Mapping[str, object] | None = None,
        readable: frozenset[StateKey] | None = None,
    ):
        self._values = {**(options or {}), IMAGE.name: image, MODEL.name: model}
        self._readable = readable

    @property
    def image(self) -> ImageRequest | None:
        return self.get_unchecked(IMAGE)

    @property
    def model(self) -> str:
        return self.get_unchecked(MODEL)

    def __getitem__(self, key: StateKey[T]) -> T:
        """Return the value of `key`, or of its leader if that value is empty (`StateKey.read`)."""
        value = key.read(self.get_unchecked(key))
        if value or key.leader is None:
            return value
        return key.leader.read(self._values.get(key.leader.name))

    def get_unchecked(self, key: StateKey) -> object:
        """Return the value that the browser sent, or None without a value."""
        if self._readable is not None and key not in self._readable:
            raise LookupError(f"The payload reads '{key.name}', which it does not need.")
        return self._values.get(key.name)

    def list_values(self, keys: Iterable[StateKey]) -> dict[str, object]:
        """Return, by name, the unchecked values of the `keys` that the browser sent."""
        return {key.name: self._values[key.name] for key in keys if key.name in self._values}

    def restrict(self, needs: "Needs") -> "ViewState":
        """Return the same state, from which only the keys of `needs` can be read."""
        options = {**self._values}
        image, model = options.pop(IMAGE.name), options.pop(MODEL.name)
        return ViewState(image, model, options, frozenset(needs.watched + needs.unwatched))


def parse_view_state(fields: object) -> ViewState:
    """Parse the browser's view state. Raises `VitdemoError` if a field is invalid."""
    fields = fields if isinstance(fields, dict) else {}
    image, model = fields.get(IMAGE.name), fields.get(MODEL.name)
    if not isinstance(model, str) or len(model) > MODEL.max_length:
        raise VitdemoError("The request contains no model. Reload the page.")
    return ViewState(parse_image_fields(image) if isinstance(image, dict) else None, model, fields)


@dataclass(frozen=True)
class Needs:
    """State keys of a payload: the `watched` keys, and further keys that it may read.

    The browser requests the payload again if the value of a watched key changes.
    """

    watched: tuple[StateKey, ...]
    unwatched: tuple[StateKey, ...] = ()


def needs(*keys: StateKey, unwatched: tuple[StateKey, ...] = ()) -> Callable[[Function], Function]:
    """Declare the state keys that a payload function reads; see `Needs`.

    @needs(IMAGE, MODEL)
    def payload(context, state): ...
    """

    def declare(function: Function) -> Function:
        function.needs = Needs(keys, unwatched)
        return function

    return declare


def get_needs(payload: Callable) -> Needs:
    """Return the keys that a payload function declares with `needs`."""
    while isinstance(payload, partial):
        payload = payload.func
    return payload.needs
