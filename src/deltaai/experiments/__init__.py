"""The paper's figures from one command: parts, runs that resume, CSV, picture and summary."""

from deltaai.experiments.parts import Experiment, Part, Row

__all__ = ["Experiment", "Part", "Row"]
