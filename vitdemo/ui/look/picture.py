"""The upper part of the Look tab: a picture, and what each model says of it."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
from PIL import Image

from vitdemo.errors import DataError, VitdemoError
from vitdemo.explorer import Answer, TestPicture
from vitdemo.inputs import load_image, visible_square
from vitdemo.ui import html
from vitdemo.ui.kit import DECODE_QUEUE, MODEL_QUEUE, PathImage, for_people
from vitdemo.ui.look import drawing, permalink

# Ours and gradio's own pictures: examples that need no network. The first one is a class of
# CIFAR-10, so that a newcomer begins with something that the models know.
OURS = Path(__file__).parents[3] / "assets" / "photos"
GRADIOS = Path(gr.__file__).parent / "media_assets" / "images"
EXAMPLE_FOLDERS = (OURS, GRADIOS)
EXAMPLES = (
    OURS / "cat.jpg",
    GRADIOS / "bus.png",
    GRADIOS / "lion.jpg",
    GRADIOS / "cheetah1.jpg",
    GRADIOS / "tower.jpg",
)
KEPT_SECONDS = 6 * 3600  # after it was chosen; a lesson is shorter
OLDER = "Still shown: the picture before."
OWN = "<span data-own></span>"  # the note of a picture that no address can name
# gradio says that a picture was put in when it is taken away, and names the one that was there.
IS_THERE = """async () => {
  await new Promise((drawn) => setTimeout(drawn, 50));
  return [document.querySelector("#upload img") ? "there" : ""];
}"""
SHOWN = 12  # test pictures on offer at a time

INTRO = (
    "What each model says of one picture, and where its attention goes. "
    "Drop a picture, take one with the camera, or choose one below."
)


@dataclass(frozen=True)
class Parts:
    """The components of this part that events connect."""

    picture: gr.State  # what models can see of this user's picture: an RGB square
    offered: gr.State  # numbers of the test pictures on offer
    upload: PathImage
    note: gr.HTML
    photos: gr.Gallery
    tests: gr.Gallery
    tests_notice: gr.HTML
    others: gr.Button
    answers: gr.HTML


def lay_out() -> Parts:
    """The components in reading order."""
    files = example_files()
    picture = gr.State(None, time_to_live=KEPT_SECONDS)
    offered = gr.State([], time_to_live=KEPT_SECONDS)
    gr.Markdown(INTRO)
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            upload = PathImage(
                value=files[0] if files else None,
                type="filepath",
                image_mode=None,
                format="png",  # lossless: a test picture must reach the model as it is
                sources=["upload", "clipboard", "webcam"],
                label="Your picture",
                height=300,
                elem_id="upload",
            )
            note = gr.HTML("", elem_id="note", apply_default_css=False)
            photos = _gallery(
                [(file, Path(file).stem.rstrip("1")) for file in files], 5, "Photos", bool(files)
            )
        with gr.Column(scale=3, min_width=300):
            answers = gr.HTML(elem_id="answers", apply_default_css=False)
            tests = _gallery([], 6, "Pictures of the test set", False)
            tests_notice = gr.HTML(elem_id="tests-notice", apply_default_css=False)
            others = gr.Button("Other pictures", size="sm", visible=False)
    return Parts(picture, offered, upload, note, photos, tests, tests_notice, others, answers)


def wire(
    loaded: gr.events.Dependency,
    parts: Parts,
    *,
    answers: Callable[[Image.Image], tuple[list[Answer], list[str]]],
    test_picture: Callable[[int], TestPicture],
    test_size: Callable[[], int],
) -> list[gr.events.Dependency]:
    """Connect the components; returns the events after which a picture has been answered.

    `loaded` is the event after which the page's first picture stands in `upload`.
    """

    @for_people
    def read_picture(path):
        # Cleared: the last result stays on the page.
        return gr.skip() if path is None else visible_square(load_image(path))

    @for_people
    def answer(image):
        return gr.skip() if image is None else drawing.answers_html(*answers(image))

    def refused(image):
        # The refused file leaves the page; what stands there is told to be older.
        older = OLDER if image is not None else "No picture yet."
        return None, f"<strong>That file could not be shown.</strong> {older}"

    def offer():
        try:
            size = test_size()
            numbers = random.sample(range(size), min(SHOWN, size))
            items = [drawing.offered_item(test_picture(number)) for number in numbers]
        except VitdemoError as error:
            return [], gr.update(visible=False), html.notice(str(error)), gr.update(visible=False)
        return numbers, gr.update(value=items, visible=True), "", gr.update(visible=True)

    @for_people
    def pick_test(numbers, event: gr.SelectData):
        if event.index >= len(numbers):
            raise DataError("These pictures are no longer on offer: ask for others.")
        number = numbers[event.index]
        return opened(number, test_picture(number))

    def pick_photo(event: gr.SelectData):
        return opened_photo(example_files()[event.index])

    private = {"api_visibility": "private"}
    latest = {"trigger_mode": "always_last", **private}  # a second click must not be lost
    each = {"trigger_mode": "multiple", **private}  # nor a picture, while another one is answered
    offered = [parts.offered, parts.tests, parts.tests_notice, parts.others]
    shown = [parts.upload, parts.note]
    reading = {"fn": read_picture, "inputs": parts.upload, "outputs": parts.picture, **DECODE_QUEUE}

    def answered(read):
        read.failure(refused, inputs=parts.picture, outputs=shown, **each)
        return read.success(
            answer, inputs=parts.picture, outputs=parts.answers, **each, **MODEL_QUEUE
        )

    parts.upload.input(
        lambda there: OWN if there else OLDER, parts.note, parts.note, js=IS_THERE, **private
    )
    parts.photos.select(pick_photo, outputs=shown, **latest)
    parts.tests.select(pick_test, inputs=parts.offered, outputs=shown, **latest)
    parts.others.click(offer, outputs=offered, **private)
    loaded.success(offer, outputs=offered, **private)
    return [
        answered(parts.upload.change(**reading, **latest)),
        answered(loaded.success(**reading, **each)),
    ]


def opened(number: int, found: TestPicture) -> tuple[Image.Image, str]:
    """The values of `upload` and `note` that open test picture `number`."""
    words = f"Test picture {number}. Its true class: "
    source = f'<span data-source="{permalink.TEST}{number}"></span>'
    return found.image, f"{source}{words}<strong>{html.escape(found.label)}</strong>."


def opened_photo(file: str) -> tuple[str, str]:
    """The values of `upload` and `note` that open one of the photos."""
    return file, f'<span data-source="{permalink.PHOTO}{html.escape(Path(file).stem)}"></span>'


def named(source: str | None, test_picture: Callable[[int], TestPicture]) -> tuple:
    """The values of `upload` and `note` for "test:17" or "photo:lion" of an address.

    Anything else, and what is not there, leaves the page with the picture that it starts with.
    """
    number = permalink.picture_number(source)
    photos = {permalink.PHOTO + Path(file).stem: file for file in example_files()}
    try:
        if number is not None:
            return opened(number, test_picture(number))
    except VitdemoError as error:
        gr.Info(html.escape(str(error)))
    return opened_photo(photos[source]) if source in photos else (gr.skip(), gr.skip())


def _gallery(items: list, columns: int, label: str, visible: bool) -> gr.Gallery:
    return gr.Gallery(
        items,
        label=label,
        columns=columns,
        height=None,
        allow_preview=False,
        interactive=False,
        object_fit="cover",
        elem_classes="vd-gallery",
        buttons=[],
        visible=visible,
    )


def example_files() -> list[str]:
    """Paths of the example photos that are here: gradio's differ from version to version."""
    return [str(file) for file in EXAMPLES if file.is_file()]
