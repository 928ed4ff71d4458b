def mean(values):
    """The arithmetic mean."""
    return sum(values) / len(values)


def variance(values):
    """The mean squared distance from the mean."""
    center = mean(values)
    return 


print(variance([1, 2, 3]))
