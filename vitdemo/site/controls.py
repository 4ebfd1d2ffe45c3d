"""Controls of the page that `controls.js` draws in a document without gradio."""

from vitdemo.page.components.run_choice import RunChoice
from vitdemo.page.components.run_list import RunList

PLAIN_KINDS = ("checkbox", "checkboxgroup", "dropdown", "radio", "slider")  # gradio's kinds
PROPERTIES = ("label", "value", "choices", "multiselect", "minimum", "maximum", "step")
MENU_PROPERTIES = ("label", "value", "groups", "info", "nobody")
LIST_PROPERTIES = ("label", "value", "groups", "defaults", "shown", "more", "looks")


def list_controls(page) -> dict[str, dict]:
    """Return element id -> state key, kind and properties, for each control of a page."""
    keys = {each["element"]: key for key, each in page.bridge.descriptions.items()}
    keys |= {each.elem_id: key for key, each in page.bridge.shown.items()}
    controls = [each for each in page.blocks.values() if each.elem_id in keys]
    found = {}
    for each in controls:
        if isinstance(each, RunChoice):
            found[each.elem_id] = {"kind": "menu", **_read_properties(each, MENU_PROPERTIES)}
        elif isinstance(each, RunList):
            found[each.elem_id] = {"kind": "runs", **_read_properties(each, LIST_PROPERTIES)}
        elif (kind := each.get_block_name()) in PLAIN_KINDS:
            found[each.elem_id] = {"kind": kind, **_read_properties(each, PROPERTIES)}
    return {element: {"key": keys[element], **properties} for element, properties in found.items()}


def _read_properties(control, names: tuple[str, ...]) -> dict:
    return {name: getattr(control, name) for name in names if hasattr(control, name)}
