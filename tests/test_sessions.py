"""Objects of all users and of single browser sessions."""

import pytest

from vitdemo.errors import RunError
from vitdemo.sessions import OwnedItems, Sessions


def test_object_is_added_for_all_users_or_one_session():
    session = ["a"]
    items = OwnedItems(Sessions(lambda: session[0]), get_key=str.lower)
    items.add("One", for_all=True)
    items.add("Two", for_all=False)
    items.add("TWO", for_all=False)  # the same key
    assert items.list() == ["One", "Two"]
    session[0] = "b"
    assert items.list() == ["One"]
    assert items.is_removable("One", for_all=True)
    assert not items.is_removable("One", for_all=False)
    items.remove("Two", for_all=False)
    items.remove("One", for_all=True)
    assert items.list() == []
    session[0] = "a"
    assert items.list() == ["Two"]
    assert items.is_removable("Two", for_all=False)
    session[0] = "b"
    items.add("Two", for_all=True)
    session[0] = "a"
    assert items.list() == ["Two"]  # listed once
    session[0] = None  # no browser session
    assert not items.is_removable("Two", for_all=False)
    for change in (items.add, items.remove):
        with pytest.raises(RunError, match="needs a browser session"):
            change("Two", for_all=False)
    assert items.list() == ["Two"]
    items.discard("two")  # for every owner
    for session[0] in ("a", "b"):
        assert items.list() == []
