"""Models from and to files and other libraries: text in, factor graph out, and back."""

from deltaai.io.files import as_model, example, read, read_evidence, read_evidence_table, write
from deltaai.io.pgmpy import from_pgmpy, to_pgmpy
from deltaai.io.pyagrum import from_pyagrum, to_pyagrum

__all__ = [
    "as_model",
    "example",
    "from_pgmpy",
    "from_pyagrum",
    "read",
    "read_evidence",
    "read_evidence_table",
    "to_pgmpy",
    "to_pyagrum",
    "write",
]
