"""Colours as people see them: contrast, and how far apart two are, with and without colour blindness.

Standard library only.
"""

import itertools
import math
import re

# Machado, Oliveira, Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009), severity
# 1.0: matrices for linear light.
SEEN = {
    "everybody": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}
APART = 15  # CIE 1976: 2.3 can be just noticed side by side


def rgb(color):
    """Of "#rgb", "#rrggbb" or the browser's "rgb(r, g, b)"; None: it is not opaque."""
    if color.startswith("#"):
        digits = color[1:] if len(color) == 7 else "".join(digit * 2 for digit in color[1:])
        return tuple(int(digits[i:i + 2], 16) for i in (0, 2, 4))
    parts = [float(part) for part in re.findall(r"[\d.]+", color)]
    return tuple(parts[:3]) if len(parts) == 3 or parts[3] == 1 else None


def linear(color):
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (part / 255 for part in rgb(color))]


def times(matrix, vector):
    return [sum(factor * part for factor, part in zip(row, vector)) for row in matrix]


def contrast(one, other):
    """https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio"""
    low, high = sorted(sum(times(((0.2126, 0.7152, 0.0722),), linear(color))) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(color, seen):
    light = [min(max(part, 0), 1) for part in times(seen, linear(color))]
    xyz = times(((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041)), light)
    x, y, z = (part ** (1 / 3) if part > (6 / 29) ** 3 else part / (3 * (6 / 29) ** 2) + 4 / 29
               for part in (part / white for part, white in zip(xyz, (0.95047, 1, 1.08883))))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def too_near(colors):
    """Returns the pairs of these colours, by name, that some people cannot tell apart."""
    return {(one, other, who): round(distance, 1) for who, seen in SEEN.items() for one, other in itertools.combinations(colors, 2)
            if (distance := math.dist(lab(colors[one], seen), lab(colors[other], seen))) < APART}
