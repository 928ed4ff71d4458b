def mean(values):
    """The arithmetic mean."""
    return sum(values) / len(values)


def variance(values):
    """The mean squared distance from the mean."""
    distances = 
    return mean(distances)


print(variance([1, 2, 3]))
