"""When the numbers of a list should not be believed: the network hardly agrees with labels that it never saw."""

LEAST_AGREEMENT = 0.5  # with held-out labels, as a share of them


def caution(agreement: float | None) -> str | None:
    """A warning in words, by the accuracy on held-out labels as given; None where there is nothing to warn of."""
    if agreement is None or agreement >= LEAST_AGREEMENT:
        return None
    return (
        f"The network gives only {100 * agreement:.0f} % of the held-out samples the label that they carry: it is too "
        "weak for these data, or most labels are wrong. So it cannot be told how many are. The order of the list still "
        "counts. More samples, larger images or pretrained weights make a stronger network."
    )
