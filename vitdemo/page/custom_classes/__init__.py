"""The tab "Custom classes": a classifier for the user's own images, trained in seconds.

Images and models belong to the user's session, and are deleted one hour after the last use. Only
this user sees the models in the tabs, and can download the classifier as a zip file. If the page
allows training, the user can also publish the classifier or fine-tune the whole model.
"""

from collections.abc import Callable
from functools import partial

import gradio as gr

from vitdemo.custom_classes import MAX_CUSTOM_CLASSES
from vitdemo.jobs import JobQueue
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.components.run_choice import RunChoice, group_runs
from vitdemo.page.custom_classes import classifier, editor, fine_tuning, models, results, trial
from vitdemo.page.custom_classes.session import (
    EDITOR_VIEW,
    MODELS_VIEW,
    RESULT_VIEW,
    TRIAL_VIEW,
    CustomClassesSession,
)
from vitdemo.page.feature import Feature, PageSetup
from vitdemo.page.gradio_patches import session_value
from vitdemo.page.view_state import needs

ABOUT_CUSTOM_CLASSES = (
    f"You need 2 to {MAX_CUSTOM_CLASSES} classes. Twenty images per class are enough to start. A "
    "trained Vision Transformer, the backbone, stays unchanged: only a new classifier is fitted "
    "on its features.\n\nOther users cannot see your images or your model, unless you publish the "
    "model. Your images and your model are lost when you leave or reload the page. This server "
    "deletes them one hour after their last use."
)
IMAGES_TITLE, TRAIN_TITLE, TRY_TITLE = "## 1 Images", "## 2 Train", "## 3 Try"
SESSION_LIFETIME = 3600  # seconds from the last use to the deletion


TAB_ID, TITLE, FEATURE = "own", "Custom classes", Feature()


def build(setup: PageSetup) -> Feature:
    """Lay out the tab, and add its menu to `setup.controls`.

    With `setup.jobs`, users may publish a model.
    """
    jobs = setup.jobs
    session = gr.State(
        CustomClassesSession(),
        time_to_live=SESSION_LIFETIME,
        delete_callback=lambda left: left.delete_all(jobs),
    )
    backbones = group_runs(classifier.list_backbones(setup.context))
    with gr.Row(elem_id="own-columns", equal_height=False):
        with gr.Column(min_width=260):
            gr.Markdown(IMAGES_TITLE)
            add_view(EDITOR_VIEW, elem_id="own-classes")
        with gr.Column(min_width=260):
            gr.Markdown(TRAIN_TITLE)
            setup.controls.add(keys.BACKBONE, RunChoice, backbones)
            add_view(MODELS_VIEW, elem_id="own-models")
            add_view(RESULT_VIEW, elem_id="own-result")
            add_view("export_menu", elem_id="own-export")
        with gr.Column(min_width=260):
            gr.Markdown(TRY_TITLE)
            add_view(TRIAL_VIEW, elem_id="own-trial")
    with gr.Accordion("About", open=False, elem_classes="vd-about"):
        gr.Markdown(ABOUT_CUSTOM_CLASSES)

    return make_feature(lambda: session_value(session), jobs)


def make_feature(own: Callable[[], CustomClassesSession], jobs: JobQueue | None) -> Feature:
    """Return the feature of the tab; `own()` is the session of the current request."""
    return Feature(
        payloads={
            EDITOR_VIEW: needs()(lambda context, state: editor.payload(own())),
            MODELS_VIEW: partial(models.payload, own, jobs),
            RESULT_VIEW: needs()(lambda context, state: results.payload(own())),
            TRIAL_VIEW: needs()(lambda context, state: trial.payload(own())),
        },
        tasks={
            "own.train": lambda context, state, report: classifier.train(
                context, state, report, own()
            ),
            "own.save": lambda context, state, report: classifier.save(
                context, state, report, own()
            ),
            "own.save_images": lambda context, state, report: editor.save_images(own()),
            "own.save_fine_tuned": lambda context, state, report: fine_tuning.save(own()),
            "own.fine_tune": lambda context, state, report: fine_tuning.fine_tune(
                context, state, report, own(), jobs
            ),
        },
        actions={
            "own.edit": lambda context, state, fields: editor.edit(context, own(), fields),
            "own.publish": lambda context, state, fields: classifier.publish(context, own(), jobs),
            "own.unpublish": lambda context, state, fields: classifier.unpublish(own(), jobs),
            "own.predict": lambda context, state, fields: trial.predict(
                context, state, own(), fields
            ),
            "own.discard": lambda context, state, fields: fine_tuning.discard_fine_tuned(
                own(), jobs
            ),
        },
    )
