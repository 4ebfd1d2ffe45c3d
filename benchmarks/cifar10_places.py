"""Regenerate `places.bin` and `names.xz` of `vitdemo.data.cifar10` from the official files.

python benchmarks/cifar10_places.py data
"""

import lzma
import pickle
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from torchvision.datasets import CIFAR10  # noqa: E402

from vitdemo.data.cifar10 import BATCH_FILES, PACKAGE_FOLDER, hash_image  # noqa: E402


def main() -> None:
    digests, names = [], []
    for batch in BATCH_FILES:
        with (Path(sys.argv[1]) / CIFAR10.base_folder / batch).open("rb") as file:
            content = pickle.load(file, encoding="latin1")
        images = content["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)  # (N, 32, 32, 3)
        digests += map(hash_image, images)
        names += content["filenames"]
    (PACKAGE_FOLDER / "places.bin").write_bytes(b"".join(digests))
    packed = lzma.compress("\n".join(names).encode(), preset=9 | lzma.PRESET_EXTREME)
    (PACKAGE_FOLDER / "names.xz").write_bytes(packed)
    print(f"{len(set(digests)):,} different digests of {len(digests):,} images")


if __name__ == "__main__":
    main()
