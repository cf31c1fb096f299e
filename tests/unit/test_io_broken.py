"""Whatever is wrong with a file, the complaint names the file, the line and what was expected."""

from __future__ import annotations

import os
import re
import stat

import pytest

from broken_files import BROKEN_FILES, MODEL_OF_BROKEN_EVIDENCE, VALID_UAI
from deltaai.errors import ConversionError, DeltaAIError, FormatError
from deltaai.io import files, read, read_evidence, write
from deltaai.io.source import Source
from deltaai.io.uai import parse_uai
from deltaai.models import FactorGraph, TableFactor

WITHOUT_LINE = ("empty", "unknown kind of file", "damaged or cut short")
SMALL = parse_uai(Source("<string>", MODEL_OF_BROKEN_EVIDENCE.decode()))


def test_catalogue_is_large():
    assert len(BROKEN_FILES) >= 30


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_broken_file_is_refused(name, tmp_path):
    suffix, content, expected = BROKEN_FILES[name]
    path = tmp_path / f"broken{suffix}"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=re.escape(expected)) as caught:
        read_evidence(path, SMALL) if suffix == ".evid" else read(path)
    assert str(path) in str(caught.value)
    if not any(words in str(caught.value) for words in WITHOUT_LINE):
        assert caught.value.line is not None
        assert caught.value.line >= 1
    assert "x01" not in repr(caught.value)  # placeholders for quoted names stay inside


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        read(tmp_path / "nowhere.uai")
    with pytest.raises(FormatError, match="no such file"):
        read_evidence(str(tmp_path / "nowhere.evid"))
    folder = tmp_path / "folder.uai"
    folder.mkdir()
    with pytest.raises(FormatError, match="folder"):
        read(folder)
    with pytest.raises(FormatError, match="cannot be read"):
        read("a\0b.uai")


def test_hint_for_evidence(tmp_path):
    with pytest.raises(FormatError, match="read_evidence"):
        read(tmp_path / "grid.uai.evid")


def test_too_much_text_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_TEXT_BYTES", 20)
    path = tmp_path / "grid.uai"
    path.write_text(VALID_UAI[0])
    with pytest.raises(FormatError, match="more than 20 B"):
        read(path)


def test_write_to_nowhere(tmp_path):
    with pytest.raises(DeltaAIError, match="cannot write"):
        write(SMALL, tmp_path / "no" / "such" / "folder.uai")
    (tmp_path / "folder.uai").mkdir()
    with pytest.raises(DeltaAIError, match="cannot write"):
        write(SMALL, tmp_path / "folder.uai")
    with pytest.raises(DeltaAIError, match="cannot write"):
        write(SMALL, "a\0b.uai")
    with pytest.raises(FormatError, match="unknown kind"):
        write(SMALL, tmp_path / "grid.xml")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.uai"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "grid.uai"
    write(SMALL, path)
    before = path.read_bytes()
    too_large = FactorGraph(SMALL.variables, [TableFactor(["x0"], [0.0, 1e4])])
    with pytest.raises(ConversionError, match="does not fit in a double"):
        write(too_large, path)

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(DeltaAIError, match="No space left"):
        write(SMALL, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["grid.uai"]


@pytest.mark.skipif(os.name != "posix", reason="file modes and links are those of POSIX")
def test_write_keeps_mode_and_link(tmp_path):
    path, link = tmp_path / "grid.uai", tmp_path / "link.uai"
    write(SMALL, path)
    path.chmod(0o640)
    link.symlink_to(path)
    write(SMALL, link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
