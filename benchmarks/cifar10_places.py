"""Regenerate `places.bin` of `vitdemo.data.cifar10` from the official files, and check them.

python benchmarks/cifar10_places.py data
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vitdemo.data.cifar10 import PARTS, PLACES_FILE, hash_image, load_part  # noqa: E402


def main() -> None:
    parts = [load_part(Path(sys.argv[1]), part)[0] for part in PARTS]  # verifies the checksums
    digests = [hash_image(image.transpose(1, 2, 0)) for images in parts for image in images]
    PLACES_FILE.write_bytes(b"".join(digests))
    print(f"{len(set(digests)):,} different digests of {len(digests):,} images")


if __name__ == "__main__":
    main()
