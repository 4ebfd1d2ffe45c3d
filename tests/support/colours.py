"""Differences of colours as people see them: CIEDE2000 (Sharma, Wu & Dalal 2005)."""

import numpy as np
from matplotlib.colors import to_rgb

RGB_TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
WHITE = np.array([0.95047, 1, 1.08883])  # D65


def to_lab(rgb: np.ndarray) -> np.ndarray:
    """Convert sRGB colours (..., 3) from 0 to 1 to CIELAB."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = linear @ RGB_TO_XYZ.T / WHITE
    x, y, z = np.moveaxis(
        np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116), -1, 0
    )
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)


def difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the difference of CIELAB colours (..., 3); 1 is just visible."""
    (l1, a1, b1), (l2, a2, b2) = (np.moveaxis(each, -1, 0) for each in (first, second))
    mean_chroma = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    grey = 1.5 - 0.5 * np.sqrt(mean_chroma**7 / (mean_chroma**7 + 25.0**7))
    c1, c2 = np.hypot(grey * a1, b1), np.hypot(grey * a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, grey * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = np.where(c1 * c2 == 0, 0, (h2 - h1 + 180) % 360 - 180)
    hue_part = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    total = h1 + h2
    near = np.where(np.abs(h1 - h2) <= 180, total, total + np.where(total < 360, 360, -360)) / 2
    hue = np.where(c1 * c2 == 0, total, near)
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2

    def cosine(factor: int, offset: int) -> np.ndarray:
        return np.cos(np.radians(factor * hue + offset))

    weight = 1 - 0.17 * cosine(1, -30) + 0.24 * cosine(2, 0) + 0.32 * cosine(3, 6)
    weight = weight - 0.2 * cosine(4, -63)
    blue = 30 * np.exp(-(((hue - 275) / 25) ** 2))
    rotation = -np.sin(2 * np.radians(blue)) * 2 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    lightness = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    saturation = (c2 - c1) / (1 + 0.045 * chroma)
    tone = hue_part / (1 + 0.015 * chroma * weight)
    return np.sqrt(lightness**2 + saturation**2 + tone**2 + rotation * saturation * tone)


def name_difference(first: str, second: str) -> float:
    """Return the difference of two named or hexadecimal colours."""
    return float(difference(*(to_lab(np.array(to_rgb(each))) for each in (first, second))))
