"""State of the Explore tab in the page's URL: image, model, layer, section and settings.

An example is `?model=vit-scratch&layer=4&section=heads&picture=test:17`. The browser writes the
URL. This module checks its values, which are untrusted. The script of the attention component reads
and checks further parameters (head, token, direction, ...).
"""

import json
from collections.abc import Sequence
from urllib.parse import parse_qs

import gradio as gr
from gradio.components import Component

from vitdemo.page.components.picture import ImageRequest, clamp_fraction
from vitdemo.page.kit import NO_PROGRESS, UncheckedDropdown, UncheckedSlider

COPY_FAILED = "not copied"
MAX_QUERY_LENGTH = 4000  # maximum number of characters that are read from a URL
MAX_CLASS_NAME_LENGTH = 200  # maximum length of a class name; ImageNet-21k has a name with 175
MAX_NUMBER = 10_000  # limit of a number if the component has no maximum yet

# The URL does not contain initial values, so that it stays short.
_JS_WRITE_URL = """(...values) => {
  const names = NAMES, defaults = DEFAULTS;
  const changed = {};
  names.forEach((name, i) => {
    const value = values[i] ?? null;
    changed[name] = value !== null && String(value) === defaults[name] ? null : value;
  });
  vitdemo.address(changed);
}"""
JS_READ_QUERY = "() => [window.location.search]"
# A URL that names a section scrolls to it if it is below the window, as on a phone.
JS_SCROLL_TO_SECTION = """() => {
  const sections = document.querySelector("#sections");
  if (!new URLSearchParams(window.location.search).has("section")) return;
  if (sections.getBoundingClientRect().top > window.innerHeight) sections.scrollIntoView();
}"""
JS_COPY_LINK = """async () => {
  try {
    await navigator.clipboard.writeText(window.location.href);
  } catch { // without HTTPS there is no clipboard
    return ["NOT_COPIED"];
  }
  return [vitdemo.source === "own" ? "own" : ""];
}""".replace("NOT_COPIED", COPY_FAILED)


def parse_query(search: str) -> dict[str, str]:
    """Parse the query of a URL into a dict; for a repeated name, the last value counts."""
    return {
        name: values[-1] for name, values in parse_qs((search or "")[1:MAX_QUERY_LENGTH]).items()
    }


def parse_value(component: Component, text: str | None):
    """Parse a component's value from the URL; None if the value is missing or invalid."""
    if text is None:
        return None
    if isinstance(component, gr.Checkbox):
        return {"true": True, "false": False}.get(text)
    if isinstance(component, gr.Slider):
        return _parse_number(component, text)
    if isinstance(component, gr.Textbox):
        return text
    if isinstance(
        component, UncheckedDropdown
    ):  # the choices depend on the model, so the handler checks the value
        value = text[:MAX_CLASS_NAME_LENGTH]
        return gr.update(choices=[*component.choices, (value, value)], value=value)
    values = [value for _, value in getattr(component, "choices", None) or ()]
    return next((value for value in values if str(value) == text), None)


def _parse_number(slider: gr.Slider, text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    # A deeper model than the first one has more layers; the handler clamps the value.
    top = MAX_NUMBER if isinstance(slider, UncheckedSlider) else slider.maximum
    if not slider.minimum <= value <= top:
        return None
    return int(value) if value == int(value) else value


def image_from_query(search: str, photos: Sequence[str]) -> ImageRequest | None:
    """Return the image named in the URL, or the first of `photos`, or None without photos."""
    found = parse_query(search)
    try:
        at = clamp_fraction(float(found.get("crop", "0.5")))
    except ValueError:
        at = 0.5
    if source := found.get("picture"):
        return ImageRequest(source[:MAX_CLASS_NAME_LENGTH], None, at)
    return ImageRequest(photos[0], None, at) if photos else None


def report_copy(said: str) -> None:
    """Show a message that the link was copied, or that the browser blocked copying.

    If `said` is "own", the message adds that the link does not contain the user's photo.
    """
    if said == COPY_FAILED:
        gr.Warning(
            "The browser blocked copying (it requires HTTPS). Copy the link from the address bar."
        )
        return
    missing = " It does not contain your photo but opens with the first image." if said else ""
    gr.Info(f"Link copied.{missing}")


def url_writer_script(linked: dict[str, Component]) -> str:
    """Return the JavaScript function that writes the values of all components to the URL."""
    defaults = {name: _to_js_string(component.value) for name, component in linked.items()}
    for name in ("model", "layer"):  # no defaults: the initial values depend on the available runs
        defaults.pop(name, None)
    return _JS_WRITE_URL.replace("NAMES", json.dumps(list(linked))).replace(
        "DEFAULTS", json.dumps(defaults)
    )


def _to_js_string(value) -> str:
    """Format `value` like JavaScript's function `String`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return "" if value is None else str(value)


def write_url_on_change(linked: dict[str, Component]) -> None:
    """Connect the events: each change of a component in `linked` updates the URL."""
    gr.on(
        [component.change for component in linked.values()],
        None,
        inputs=list(linked.values()),
        js=url_writer_script(linked),
        **NO_PROGRESS,
    )
