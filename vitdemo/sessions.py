"""The browser session of the current request, and objects that belong to a session or all users."""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

from vitdemo.errors import RunError

Item = TypeVar("Item")


class Sessions:
    """The current session, and the private folder of each session.

    `get_id` returns the id of the session that makes the current request, or None.
    """

    def __init__(self, get_id: Callable[[], str | None]):
        self.get_id = get_id
        self._folders: dict[str, Path] = {}

    def require_id(self) -> str:
        """Return the id of the current session. Raises `RunError` outside a session."""
        if not (session_id := self.get_id()):
            raise RunError("This action needs a browser session. Reload the page and try again.")
        return session_id

    def find_folder(self) -> Path | None:
        """Return the private folder of the current session, or None if there is none yet."""
        return self._folders.get(self.get_id() or "")

    def make_folder(self) -> Path:
        """Return the private folder of the session, which is deleted when the process ends.

        Raises `RunError` outside a session.
        """
        session_id = self.require_id()
        if session_id not in self._folders:
            folder = tempfile.mkdtemp(prefix="vitdemo-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._folders[session_id] = Path(folder)
        return self._folders[session_id]


class OwnedItems(Generic[Item]):
    """Objects that belong to all users or to one session, until this process ends.

    `get_key` returns the identity of an object. The `items` belong to all users.
    """

    def __init__(
        self,
        sessions: Sessions,
        get_key: Callable[[Item], Hashable],
        items: Iterable[Item] = (),
    ):
        self._sessions, self._get_key = sessions, get_key
        self._items: dict[tuple[str | None, Hashable], Item] = {}  # (owner, key) -> object
        for item in items:
            self._items.setdefault((None, get_key(item)), item)

    def list(self) -> list[Item]:
        """Return the objects of all users, then those of the current session, each once."""
        found: dict[Hashable, Item] = {}
        items = self._items.copy()  # other users may add or remove objects meanwhile
        for listed in (None, self._sessions.get_id()):
            for (owner, key), item in items.items():
                if owner == listed:
                    found.setdefault(key, item)
        return list(found.values())

    def add(self, item: Item, *, for_all: bool) -> None:
        """Add `item` for all users or the current session, unless the session already lists it.

        Raises `RunError` outside a session, unless the object is for all users.
        """
        owner, key = self._owner(for_all), self._get_key(item)
        if key not in map(self._get_key, self.list()):
            self._items[owner, key] = item

    def is_removable(self, item: Item, *, for_all: bool) -> bool:
        """Return whether `remove` with the same arguments removes an object."""
        owner = None if for_all else self._sessions.get_id() or ""
        return (owner, self._get_key(item)) in self._items

    def remove(self, item: Item, *, for_all: bool) -> None:
        """Remove `item`, if it was added with the same `for_all`.

        Raises `RunError` outside a session, unless the object is for all users.
        """
        self._items.pop((self._owner(for_all), self._get_key(item)), None)

    def discard(self, key: Hashable) -> None:
        """Remove the object with this key for every owner. Callers check the owner."""
        for owner, known in [*self._items]:
            if known == key:
                self._items.pop((owner, known), None)

    def _owner(self, for_all: bool) -> str | None:
        return None if for_all else self._sessions.require_id()
