"""Drafters for tests, which are those of the audit: random, adversarial, clairvoyant."""

from completiond.measure.planted import Clairvoyant, Quiet, RandomTree

__all__ = ["Clairvoyant", "Quiet", "RandomTree"]
