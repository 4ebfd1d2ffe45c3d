"""Sentences that scripts write from figures."""

import pytest

EPOCHS = "training/image_across_epochs/view.js"
PREDICTIONS, KNOCKOUT = "explore/predictions/texts.js", "explore/inside/knockout/view.js"
JS_CALL = """async ([path, name, value]) =>
    (await vitdemo.load(path))[name](...(Array.isArray(value) ? value : [value]))"""
LIMITS = {"unlike": 1.0, "rather_unlike": 5.0}
MODEL = {
    "run": "vit",
    "summary": "a vit for tests",
    "parameters": 27_500_000,
    "accuracy": 0.975,
    "is_cross_validated": False,
    "dataset": "CIFAR-10",
    "class_count": 2,
    "known": ["bee", "ant"],
    "smoothing": 0.0,
    "target": 1.0,
    **LIMITS,
}


@pytest.fixture
def call(open_views, shown_views):
    """Return a function that calls a function of a script."""
    page = open_views(shown_views, "answers", "picture=photo:cat")
    return lambda path, name, value: page.evaluate(JS_CALL, [path, name, value])


def test_unlike_images_get_a_warning(call):
    rather = "Rather unlike the training images: less similar to them than"
    for percentile, start in {
        None: "",
        5.0: "",
        4.9: f"{rather} 95% of validation images.",
        1.0: f"{rather} 99% of",
        0.3: "Unlike the training images: less similar to them than 99% of",
        0.0: "Unlike the training images: less similar to them than all validation",
    }.items():
        text = call(PREDICTIONS, "describeUnusual", {"percentile": percentile, **LIMITS})
        assert text.startswith(start) and bool(start) == bool(text)


def test_models_are_described_by_their_figures(call):
    about = "vit: a vit for tests, 27.5 M parameters, 97.5% test accuracy on CIFAR-10."
    assert call(PREDICTIONS, "describeModel", MODEL) == about
    other = {**MODEL, "parameters": None, "is_cross_validated": True, "dataset": None}
    assert (
        call(PREDICTIONS, "describeModel", other)
        == "vit: a vit for tests, 97.5% cross-validated accuracy."
    )
    assert call(PREDICTIONS, "describeAccuracy", {**MODEL, "accuracy": None}) == "not evaluated"


def test_description_states_when_an_image_was_learned(call):
    for correct, text in {
        (0, 1, 1): "The prediction is correct from epoch 2 on.",
        (1, 1, 1): "The prediction is correct from epoch 1 on.",
        (1, 0, 1): "The prediction is correct from epoch 4 on; it became incorrect after epoch 2.",
        (1, 1, 0): "The prediction was first correct after epoch 1, but incorrect at the end; "
        "it became incorrect after epoch 4.",
        (0, 0, 0): "The prediction was incorrect after all of these epochs.",
    }.items():
        values = [[*map(bool, correct)], [1, 2, 4]]
        assert call(EPOCHS, "describeLearning", values) == text


def test_other_models_are_counted_by_their_class(call):
    bee = {"classes": ["bee", "ant"], "known": ["ant", "bee"]}
    ant = {"classes": ["ant", "bee"], "known": ["ant", "bee"]}
    custom = {"classes": ["bee", "cup"], "known": ["bee", "cup"]}
    imagenet = {"classes": ["bee", "ant"], "known": None, "class_count": 1000}
    for chosen, others, text in (
        (bee, [bee, bee], "2 other models: also bee"),
        (bee, [ant, bee, ant], "3 other models: 1 also bee"),
        (ant, [bee], "1 other model: other predictions"),
        (bee, [bee, custom], "1 other model: also bee; 1 model of other classes"),
        (bee, [imagenet, custom], "2 models of other classes"),
        (None, [bee, ant], "2 models"),
    ):
        assert call(PREDICTIONS, "describeOthers", [chosen, others]) == text


def test_prediction_sets_name_a_few_classes(call):
    for classes, text in {
        ("cat",): "95% set: cat",
        ("cat", "dog"): "95% set: cat, dog",
        tuple("abcd"): "95% set: a, b, c, d",
        tuple("abcdef"): "95% set: a, b, c, d and 2 more",
    }.items():
        found = {"percent": 95, "classes": classes}
        model = {**MODEL, "set": found, "percentile": None}
        assert call(PREDICTIONS, "describeSet", model) == text
        assert call(PREDICTIONS, "describeSet", {**model, "percentile": 5.0}) == text
        assert call(PREDICTIONS, "describeSet", {**model, "percentile": 4.9}) == ""
    assert call(PREDICTIONS, "describeSet", {**MODEL, "set": None}) == ""
    sets = [{**MODEL, "run": run, "set": {"percent": 95, "classes": ["a"]}} for run in "ab"]
    notes = call(PREDICTIONS, "listNotes", {"models": sets})
    assert sum("The 95% set contains the predicted class" in note for note in notes) == 1


def test_notes_explain_classes_once_and_label_smoothing(call):
    smooth = {**MODEL, "run": "smooth", "smoothing": 0.1, "target": 0.91}
    notes = call(PREDICTIONS, "listNotes", {"models": [MODEL, smooth]})
    assert [note.partition(":")[0] for note in notes[:2]] == ["vit", "smooth"]
    assert notes[2].startswith("The models have 2 classes: bee, ant. Every image")
    assert "less similar to the training images than 95% of the validation" in notes[2]
    assert notes[3:] == [
        "smooth was trained with label smoothing 0.1: its target for the true class is 91%, "
        "not 100%."
    ]


def test_knockout_names_the_layers_and_the_new_prediction(call):
    result = {
        "run": "vit",
        "layers": [1, 2],
        "depth": 3,
        "special_tokens": ["class token"],
        "predicted": ["a", "g"],
        "classes": ["a", "g"],
        "before": [0.5, 0.02],
        "now": [0.1, 0.4],
    }
    prediction, card, caveat = call(KNOCKOUT, "listBlocks", result)
    assert prediction["text"] == "vit now predicts g (40.0%)."
    assert card["title"] == "The class token cannot attend to patches in layers 1 to 2"
    assert card["now"] == result["now"] and "may cause part of the change" in caveat["text"]
    registers = [f"register {i}" for i in range(1, 7)]
    several = {**result, "layers": [1, 3], "special_tokens": ["class token", *registers]}
    _, card, description, _ = call(KNOCKOUT, "listBlocks", several | {"predicted": ["g", "g"]})
    assert card["title"] == "No special token can attend to patches in all 3 layers"
    assert "7 special tokens: the class token, and register 1, " in description["text"]
    assert "register 5, …. The attention" in description["text"]
    (message,) = call(KNOCKOUT, "listBlocks", {**result, "layers": []})
    assert message["text"].startswith("No layer is blocked.")
