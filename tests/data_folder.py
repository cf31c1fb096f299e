"""Where the public data sets lie, for the tests that read real files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "data"


def data_folder(subfolder: str = "") -> Path:
    """Return the data folder, or one of its subfolders; skip the test if it is not there.

    The environment variable ``DELTAAI_DATA`` names it; otherwise it is ``../shared/data``, seen
    from the repository.
    """
    folder = Path(os.environ.get("DELTAAI_DATA") or _BESIDE_REPOSITORY) / subfolder
    if not folder.is_dir():
        pytest.skip(f"no data folder {folder}: set DELTAAI_DATA to a folder with bif/ and uai/")
    return folder
