"""Measures A and B in turns, so that changes over time affect both alike."""

import statistics


def alternate(variants, rounds, measure):
    """Calls measure(variant) for each of `variants` in each round, in a rotating order; returns {variant: [answer]}."""
    answers = {variant: [] for variant in variants}
    for number in range(rounds):
        turn = number % len(variants)
        for variant in variants[turn:] + variants[:turn]:
            answers[variant].append(measure(variant))
    return answers


def summary(values):
    """The median, and the spread of the middle half as a share of it."""
    median = statistics.median(values)
    low, high = quartiles(values)
    return {"median": median, "low": low, "high": high, "spread": (high - low) / median if median else 0.0,
            "values": list(values)}


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0]
    cut = statistics.quantiles(values, n=4, method="inclusive")
    return cut[0], cut[2]


def paired(base, other, what):
    """Returns what(a, b) for each round, and their median."""
    each = [what(a, b) for a, b in zip(base, other)]
    low, high = quartiles(each)
    return {"median": statistics.median(each), "low": low, "high": high}
