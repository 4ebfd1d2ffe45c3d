"""Files of a model: weights and their description, from the Hugging Face Hub or from this computer.

    files = fetch_files("hf-hub:google/vit-base-patch16-224")  # or "local:PATH"
    files.config["architectures"], files.weights  # content of config.json, path of the weights

From the Hub, only JSON and safetensors files are read.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from huggingface_hub.constants import HF_HOME

from vitdemo.data.downloads import OnBytes, download_from_hub
from vitdemo.errors import ModelError, Stopped, short_reason
from vitdemo.models.weights import has_weights_format
from vitdemo.paths import expand_path

HUB_PREFIX, LOCAL_PREFIX = "hf-hub:", "local:"
CONFIG_FILE, PROCESSOR_FILE = "config.json", "preprocessor_config.json"
WEIGHTS_FILE = "model.safetensors"
PICKLE_FILES = ("pytorch_model.bin", "model.pth", "pytorch_model.pth", "model.pt")
SHARDS_FILES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
ADAPTER_FILE = "adapter_config.json"
# Options after "?" in a model's address
OPTIONS = (
    *("heads", "labels", "size", "pool", "act", "eps"),
    *("mean", "std", "crop", "interpolation"),
)
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
MAX_JSON_BYTES = 20 * 2**20  # ImageNet-22k's labels take 2 MB


@dataclass(frozen=True)
class ModelAddress:
    """Address of a model: "hf-hub:USER/NAME@revision" or "local:PATH", with options after "?".

    `options` are the number of attention heads, a file with labels, the image size, mean and std.
    """

    prefix: str
    location: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelFiles:
    """Weights file of a model, and the contents of its JSON files ({} for a missing file)."""

    weights: Path
    config: dict[str, Any]
    processor: dict[str, Any]


def parse_address(text: str) -> ModelAddress:
    """Parse the address of a model. Raises `ModelError` for an unknown form or option."""
    text = re.sub(
        r"^(hf_hub:|https?://(www\.)?(huggingface\.co|hf\.co)/)", HUB_PREFIX, text.strip()
    )
    text = re.sub(r"^(local-dir:|file://)", LOCAL_PREFIX, text)
    prefix = next((p for p in (HUB_PREFIX, LOCAL_PREFIX) if text.startswith(p)), None)
    location, _, query = text.removeprefix(prefix or "").partition("?")
    location = location.rstrip("/") or location
    if prefix is None or not location:
        raise ModelError(
            f"'{text}' is not the address of a model. Write timm:NAME, hf-hub:USER/NAME or "
            "local:PATH."
        )
    if prefix == HUB_PREFIX and not HUB_NAME.fullmatch(location):
        raise ModelError(f"'{location}' is not a repository of the Hub. Write hf-hub:USER/NAME.")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := [name for name in options if name not in OPTIONS]:
        raise ModelError(
            f"'{unknown[0]}' is not an option of a model: choose {', '.join(OPTIONS)}, for example "
            "local:PATH?heads=6&labels=labels.txt."
        )
    return ModelAddress(prefix, location, options)


def fetch_files(address: ModelAddress, on_bytes: OnBytes | None = None) -> ModelFiles:
    """Return the files of a model; files on the Hub are downloaded if necessary.

    `on_bytes(done, total)` may raise `Stopped`. Raises `ModelError` with one sentence for a missing
    or gated repository, pickled weights, damaged JSON, and a missing network.
    """
    if address.prefix == HUB_PREFIX:
        return _fetch_from_hub(address.location, on_bytes)
    return _find_local(expand_path(address.location))


def _find_local(path: Path) -> ModelFiles:
    if path.is_dir():
        return _read_files(_choose_weights(path), path / CONFIG_FILE, path / PROCESSOR_FILE)
    if not path.is_file():
        raise ModelError(f"'{path}' does not exist. Check the path of the model.")
    if path.name not in (WEIGHTS_FILE, *PICKLE_FILES):  # names of files next to a config.json
        return ModelFiles(path, {}, {})
    return _read_files(path, path.parent / CONFIG_FILE, path.parent / PROCESSOR_FILE)


def _read_files(weights: Path, config: Path | None, processor: Path | None) -> ModelFiles:
    return ModelFiles(weights, _read_json(config), _read_json(processor))


def _choose_weights(folder: Path) -> Path:
    for name in (WEIGHTS_FILE, *PICKLE_FILES):
        if (folder / name).is_file():
            return folder / name
    if any((folder / name).is_file() for name in SHARDS_FILES):
        raise ModelError(_describe_shards(str(folder)))
    files = sorted(file for file in folder.iterdir() if file.is_file())
    for is_weights in (_is_safetensors, has_weights_format):
        found = [file for file in files if is_weights(file)]
        if len(found) > 1:
            names = ", ".join(file.name for file in found[:4])
            raise ModelError(f"'{folder}' has several weights files ({names}): choose one of them.")
        if found:
            return found[0]
    raise ModelError(
        f"'{folder}' has no weights file: a folder of a model contains {WEIGHTS_FILE}, and usually "
        f"{CONFIG_FILE}."
    )


def _is_safetensors(file: Path) -> bool:
    return file.suffix == ".safetensors"


def _read_json(file: Path | None) -> dict[str, Any]:
    """Return the content of a JSON file, or {} if the file does not exist."""
    if not file or not file.is_file():
        return {}
    try:
        if file.stat().st_size > MAX_JSON_BYTES:
            raise ValueError("it is too large")
        content = json.loads(file.read_text("utf-8-sig"))
        if not isinstance(content, dict):
            raise ValueError("it contains no object")
    except (OSError, ValueError) as error:
        raise ModelError(
            f"'{file}' is damaged or incomplete ({error}): download it again."
        ) from error
    return content


def _fetch_from_hub(location: str, on_bytes: OnBytes | None) -> ModelFiles:
    repository, _, revision = location.partition("@")
    hub = _Hub(repository, revision or None)
    config = hub.fetch(CONFIG_FILE)
    processor = hub.fetch(PROCESSOR_FILE)
    weights = hub.fetch(WEIGHTS_FILE, on_bytes)
    if weights is None:
        raise ModelError(hub.describe_missing_weights())
    return _read_files(weights, config, processor)


class _Hub:
    """Access to a Hub repository. A missing file gives None; other errors raise `ModelError`."""

    def __init__(self, repository: str, revision: str | None):
        self.repository, self.revision = repository, revision
        name = f"{repository}@{revision}" if revision else repository
        # next to the cache of huggingface_hub
        self.folder = Path(HF_HOME) / "vitdemo" / name.replace("/", "--")

    def fetch(self, name: str, on_bytes: OnBytes | None = None) -> Path | None:
        """Download the file `name`, or return the file of an earlier download without a network."""
        from huggingface_hub.errors import EntryNotFoundError

        try:
            return download_from_hub(
                self.repository,
                name,
                self.folder,
                label=f"{name} of {self.repository}",
                revision=self.revision,
                on_bytes=on_bytes,
            )
        except Stopped:
            raise
        except EntryNotFoundError:
            return None
        except Exception as error:  # httpx, huggingface_hub and the disk have no common base
            if refusal := self._describe_refusal(error):
                raise ModelError(refusal) from error
            known = self._find_downloaded(name)
            if known or self._find_downloaded(WEIGHTS_FILE):
                return known  # None if the earlier download had no such file
            raise ModelError(
                f"'{self.repository}' could not be downloaded ({short_reason(error)}). Without a "
                "network, use the included models, local:PATH, or a model that was downloaded "
                "before."
            ) from error

    def _find_downloaded(self, name: str) -> Path | None:
        found = [f for f in self.folder.glob(f"*-{name}") if f.is_file()]
        return max(found, key=lambda file: file.stat().st_mtime, default=None)

    def _describe_refusal(self, error: Exception) -> str | None:
        """Return a message about a refusal by the Hub, or None for a failed connection."""
        from huggingface_hub import errors

        page = f"https://huggingface.co/{self.repository}"
        if isinstance(error, errors.GatedRepoError):
            return (
                f"'{self.repository}' is gated: accept its conditions at {page}, and log in with "
                "`hf auth login`."
            )
        if isinstance(error, errors.RevisionNotFoundError):
            return f"'{self.repository}' has no revision '{self.revision}'. Check its name."
        if isinstance(error, errors.RepositoryNotFoundError):
            return (
                f"The Hub has no public repository '{self.repository}'. Check its name, or log in "
                "with `hf auth login` for a private repository."
            )
        return None

    def describe_missing_weights(self) -> str:
        if any(map(self.has, SHARDS_FILES)):
            return _describe_shards(self.repository)
        if self.has(ADAPTER_FILE):
            return (
                f"'{self.repository}' has only a LoRA adapter: merge it into its model with "
                f"merge_and_unload() of peft, and save {WEIGHTS_FILE}."
            )
        pickled = next((name for name in PICKLE_FILES if self.has(name)), None)
        if pickled:
            return (
                f"'{self.repository}' has only pickled weights ({pickled}), which could run code. "
                f"Ask its author for {WEIGHTS_FILE}, or convert it with the Space "
                "safetensors/convert."
            )
        return f"'{self.repository}' has no {WEIGHTS_FILE}. Choose a repository with this file."

    def has(self, name: str) -> bool:
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        endpoint = os.environ.get("HF_ENDPOINT")
        url = hf_hub_url(self.repository, name, revision=self.revision, endpoint=endpoint)
        try:
            get_hf_file_metadata(url)
        except Exception:  # a missing file or a failed connection
            return False
        return True


def _describe_shards(place: str) -> str:
    return (
        f"The weights of '{place}' are split into several files, which vitdemo cannot open. Save "
        f"them as one {WEIGHTS_FILE}."
    )
