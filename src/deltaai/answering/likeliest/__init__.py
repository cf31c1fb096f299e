"""The most likely state: exactly where tables fit, else by search, with a bound on the best."""

from deltaai.answering.likeliest.asking import BestState, best_state_given, most_likely

__all__ = ["BestState", "best_state_given", "most_likely"]
