"""A fixture for tests of payloads with files."""

import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Folder of gradio's temporary files."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    return tmp_path
