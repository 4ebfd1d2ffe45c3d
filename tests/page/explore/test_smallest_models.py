"""All views of Explore for a model with one layer, one attention head and one patch."""

import pytest

from tests.support.factories import make_context, make_run
from vitdemo.errors import DataError, RunError
from vitdemo.models import ModelSpec
from vitdemo.page import explore
from vitdemo.page.image_sources import ImageRequest
from vitdemo.page.view_state import ViewState

SMALLEST = {"patch_size": 16, "embed_dim": 8, "depth": 1, "num_heads": 1}
CAT = ImageRequest("photo:cat")


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    root = tmp_path_factory.mktemp("smallest")
    for classes in (("cat",), ("cat", "dog")):
        make_run(root / str(len(classes)), ModelSpec("vit", 16, options=SMALLEST), classes=classes)
    return make_context(root)


@pytest.mark.parametrize("count", ["1", "2"])
def test_every_view_has_a_payload(context, count):
    for name, payload in explore.FEATURE.payloads.items():
        if count == "1" and name.startswith("patching."):  # patching compares two classes
            with pytest.raises(RunError, match="only the class"):
                payload(context, ViewState(CAT, count, {}))
        elif name in ("similar_patches", "linear_probes"):  # these need test images
            with pytest.raises(DataError):
                payload(context, ViewState(CAT, count, {}))
        else:
            payload(context, ViewState(CAT, count, {}))


def test_layer_parts_are_named_by_kind(context):
    value = explore.FEATURE.payloads["architecture"](context, ViewState(CAT, "2", {}))
    kinds = [part["kind"] for part in value["parts"]]
    assert {"attention", "mlp"} <= set(kinds)  # the view draws these as layers, also one layer
    assert {part["repeats"] for part in value["parts"]} == {1}
