"""The one place that names this distribution's version."""

__version__ = "0.1.0"
