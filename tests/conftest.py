"""Settings for all tests: the same examples in every run, and no deadline on a busy machine."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")
