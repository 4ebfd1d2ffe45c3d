"""Which models the panel "More models" adds, and for whom."""

import pytest

from tests.support.factories import make_context
from tests.support.foreign_checkpoints import write_checkpoint
from vitdemo.errors import ModelError
from vitdemo.page.explore.more_models import MoreModels


def make_panel(root, monkeypatch, *, is_for_all_users: bool) -> MoreModels:
    monkeypatch.setattr(MoreModels, "is_for_all_users", is_for_all_users)
    return MoreModels(make_context(root), local_only=True)


@pytest.mark.parametrize(
    "name",
    [
        "local:/etc/passwd",
        "local-dir:/etc",
        "file:///etc/passwd",
        "hf-hub:a/b",
        "https://huggingface.co/a/b",
        "vit_base_patch16_224",
    ],
)
def test_other_computers_add_only_suggested_models(tmp_path, monkeypatch, name):
    panel = make_panel(tmp_path, monkeypatch, is_for_all_users=False)
    with pytest.raises(ModelError, match="cannot be added here"):
        panel.resolve_model(name)
    assert panel.resolve_model("deit_tiny_patch16_224.fb_in1k")


def test_this_computer_opens_paths_with_labels(tmp_path, monkeypatch):
    panel = make_panel(tmp_path, monkeypatch, is_for_all_users=True)
    labels = ("a", "b", "c", "d", "e")
    folder = write_checkpoint(tmp_path / "vit")
    run = panel.resolve_model(f"local:{folder}", labels)(None)
    assert run.classes == labels
    for name, given, message in (
        ("", (), "Enter the name of a timm model"),
        ("test_vit=weights.pth", (), "Open a file with local:PATH"),
        ("test_vit", labels, "Leave the field Labels empty"),
    ):
        with pytest.raises(ModelError, match=message):
            panel.resolve_model(name, given)


def test_new_labels_replace_the_same_model(tmp_path, monkeypatch):
    panel = make_panel(tmp_path, monkeypatch, is_for_all_users=True)
    address = f"local:{write_checkpoint(tmp_path / 'vit')}"
    for labels in (("a", "b", "c", "d", "e"), ("v", "w", "x", "y", "z")):
        run = panel.resolve_model(address, labels)(None)
        panel.replace_opened_model(run)
        panel.context.timm_models.add(run, for_all=True)
        assert [model.classes for model in panel.context.timm_models.list()] == [labels]
