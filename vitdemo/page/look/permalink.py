"""The page's address holds what is chosen in Look: model, layer, settings, section, test picture.

`?model=vit-scratch&layer=4&section=heads&picture=test:17` opens just that. The browser alone writes
the address; what it holds is checked here like any other input of a stranger, but for what the
attention component alone needs (head, token, direction, ...), which its script reads and checks.
"""

import json
from collections.abc import Sequence
from urllib.parse import parse_qs

import gradio as gr
from gradio.components import Component

from vitdemo.page.components.picture import Asked, share
from vitdemo.page.kit import HIDDEN, FreeDropdown, LayerSlider

NOT_COPIED = "not copied"
LONGEST = 4000  # characters of an address that are read
LONGEST_NAME = 200  # of a class; ImageNet-21k has one of 175
LARGEST = 10_000  # of a number where the component itself has no limit yet

# Values that are as the page starts are left out, so that addresses stay short.
_WRITE = """(...values) => {
  const names = NAMES, defaults = DEFAULTS;
  const changed = {};
  names.forEach((name, i) => {
    const value = values[i] ?? null;
    changed[name] = value !== null && String(value) === defaults[name] ? null : value;
  });
  vitdemo.address(changed);
}"""
READ = "() => [window.location.search]"
# An address that names a section leads to it where it lies below the window, as on a phone.
ARRIVE = """() => {
  const sections = document.querySelector("#sections");
  if (!new URLSearchParams(window.location.search).has("section")) return;
  if (sections.getBoundingClientRect().top > window.innerHeight) sections.scrollIntoView();
}"""
COPY = """async () => {
  try {
    await navigator.clipboard.writeText(window.location.href);
  } catch { // of a page without https there is no clipboard
    return ["NOT_COPIED"];
  }
  return [vitdemo.source === "own" ? "own" : ""];
}""".replace("NOT_COPIED", NOT_COPIED)


def parse(search: str) -> dict[str, str]:
    """The address's query as a dict; of a name that comes twice, the last value."""
    return {name: values[-1] for name, values in parse_qs((search or "")[1:LONGEST]).items()}


def checked(component: Component, text: str | None):
    """The value, or update, that `text` stands for; None where the component could not have it."""
    if text is None:
        return None
    if isinstance(component, gr.Checkbox):
        return {"true": True, "false": False}.get(text)
    if isinstance(component, gr.Slider):
        return _number(component, text)
    if isinstance(component, gr.Textbox):
        return text
    if isinstance(component, FreeDropdown):  # its choices come with the model; its handler checks
        value = text[:LONGEST_NAME]
        return gr.update(choices=[*component.choices, (value, value)], value=value)
    values = [value for _, value in getattr(component, "choices", None) or ()]
    return next((value for value in values if str(value) == text), None)


def _number(slider: gr.Slider, text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    # A deeper model than the first one has more layers; the nearest that there is gets drawn.
    top = LARGEST if isinstance(slider, LayerSlider) else slider.maximum
    if not slider.minimum <= value <= top:
        return None
    return int(value) if value == int(value) else value


def wish(search: str, photos: Sequence[str]) -> Asked | None:
    """The picture that an address names, or the first of `photos`; None where there is neither."""
    found = parse(search)
    try:
        at = share(float(found.get("crop", "0.5")))
    except ValueError:
        at = 0.5
    if source := found.get("picture"):
        return Asked(source[:LONGEST_NAME], None, at)
    return Asked(photos[0], None, at) if photos else None


def tell_copied(said: str) -> None:
    """Say that the link is copied, and that a person's "own" picture is not in it; or where it is
    to be had."""
    if said == NOT_COPIED:
        gr.Warning(
            "The browser did not let the page copy it, as where it came without https: the link is "
            "what stands in the address bar."
        )
        return
    missing = " Your own picture is not in it: it opens with the page's first one." if said else ""
    gr.Info(f"The link is copied.{missing}")


def script(linked: dict[str, Component]) -> str:
    """The browser's function of all linked values that writes the address."""
    defaults = {name: _as_written(component.value) for name, component in linked.items()}
    for name in ("model", "layer"):  # which come first changes with the runs that are there
        defaults.pop(name, None)
    return _WRITE.replace("NAMES", json.dumps(list(linked))).replace(
        "DEFAULTS", json.dumps(defaults)
    )


def _as_written(value) -> str:
    """As the browser turns it into text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return "" if value is None else str(value)


def write_when_changed(linked: dict[str, Component]) -> None:
    """Write the address on every change of a linked component."""
    gr.on(
        [component.change for component in linked.values()],
        None,
        inputs=list(linked.values()),
        js=script(linked),
        **HIDDEN,
    )
