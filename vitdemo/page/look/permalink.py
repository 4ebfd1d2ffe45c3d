"""The page's URL stores the state of the Explore tab: model, layer, settings, section, test image.

`?model=vit-scratch&layer=4&section=heads&picture=test:17` opens this view. Only the browser writes
the URL. Its values are checked here like any other untrusted input. The script of the attention
component reads and checks its own parameters (head, token, direction, ...).
"""

import json
from collections.abc import Sequence
from urllib.parse import parse_qs

import gradio as gr
from gradio.components import Component

from vitdemo.page.components.picture import Asked, share
from vitdemo.page.kit import HIDDEN, FreeDropdown, LayerSlider

NOT_COPIED = "not copied"
LONGEST = 4000  # characters of a URL that are read
LONGEST_NAME = 200  # characters of a class name; ImageNet-21k has one of 175
LARGEST = 10_000  # limit of a number if the component itself has no limit yet

# Initial values are left out, so that URLs stay short.
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
# A URL that names a section scrolls to it if it is below the window, as on a phone.
ARRIVE = """() => {
  const sections = document.querySelector("#sections");
  if (!new URLSearchParams(window.location.search).has("section")) return;
  if (sections.getBoundingClientRect().top > window.innerHeight) sections.scrollIntoView();
}"""
COPY = """async () => {
  try {
    await navigator.clipboard.writeText(window.location.href);
  } catch { // without HTTPS there is no clipboard
    return ["NOT_COPIED"];
  }
  return [vitdemo.source === "own" ? "own" : ""];
}""".replace("NOT_COPIED", NOT_COPIED)


def parse(search: str) -> dict[str, str]:
    """Return the URL's query as a dict; the last value counts for a repeated name."""
    return {name: values[-1] for name, values in parse_qs((search or "")[1:LONGEST]).items()}


def checked(component: Component, text: str | None):
    """Return the value or update for `text`; None if the component cannot have this value."""
    if text is None:
        return None
    if isinstance(component, gr.Checkbox):
        return {"true": True, "false": False}.get(text)
    if isinstance(component, gr.Slider):
        return _number(component, text)
    if isinstance(component, gr.Textbox):
        return text
    if isinstance(component, FreeDropdown):  # its choices depend on the model; its handler checks
        value = text[:LONGEST_NAME]
        return gr.update(choices=[*component.choices, (value, value)], value=value)
    values = [value for _, value in getattr(component, "choices", None) or ()]
    return next((value for value in values if str(value) == text), None)


def _number(slider: gr.Slider, text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    # A deeper model than the first one has more layers; the handler clamps the value.
    top = LARGEST if isinstance(slider, LayerSlider) else slider.maximum
    if not slider.minimum <= value <= top:
        return None
    return int(value) if value == int(value) else value


def wish(search: str, photos: Sequence[str]) -> Asked | None:
    """Return the image that a URL names, or the first of `photos`; None if there is neither."""
    found = parse(search)
    try:
        at = share(float(found.get("crop", "0.5")))
    except ValueError:
        at = 0.5
    if source := found.get("picture"):
        return Asked(source[:LONGEST_NAME], None, at)
    return Asked(photos[0], None, at) if photos else None


def tell_copied(said: str) -> None:
    """Report that the link was copied, or how to get it without a clipboard.

    The link does not contain the user's "own" photo; the message says so.
    """
    if said == NOT_COPIED:
        gr.Warning(
            "The browser blocked copying (it requires HTTPS). Copy the link from the address bar."
        )
        return
    missing = " It does not contain your photo: it opens with the first image." if said else ""
    gr.Info(f"Link copied.{missing}")


def script(linked: dict[str, Component]) -> str:
    """Return the browser's function that writes all linked values into the URL."""
    defaults = {name: _as_written(component.value) for name, component in linked.items()}
    for name in ("model", "layer"):  # their initial values depend on the available runs
        defaults.pop(name, None)
    return _WRITE.replace("NAMES", json.dumps(list(linked))).replace(
        "DEFAULTS", json.dumps(defaults)
    )


def _as_written(value) -> str:
    """Return `value` as JavaScript's `String` writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return "" if value is None else str(value)


def write_when_changed(linked: dict[str, Component]) -> None:
    """Write the URL on every change of a linked component."""
    gr.on(
        [component.change for component in linked.values()],
        None,
        inputs=list(linked.values()),
        js=script(linked),
        **HIDDEN,
    )
