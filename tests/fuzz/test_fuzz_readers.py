"""Readers of models and evidence: whatever a file holds, a model or one line, and soon."""

import os

import pytest

import deltaai as dai
from deltaai.errors import DeltaAIError
from fuzz import campaign_readers as campaign
from fuzz.watching import in_bare_process

SUFFIXES = (".uai", ".bif", ".evid", ".csv", ".uai.gz", ".bif.gz", ".evid.gz")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_spoilt_files(suffix):
    campaign.spoilt_files(suffix, 120)


@pytest.mark.parametrize("suffix", [".uai", ".bif", ".evid"])
def test_every_truncation(suffix):
    campaign.every_truncation(suffix)


def test_huge_claims_take_little_memory():
    in_bare_process("campaign_readers", "huge_claims()", extra_bytes=2**29)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_spoilt_files_without_type_checks(suffix):
    in_bare_process("campaign_readers", f"spoilt_files({suffix!r}, 8000)", seconds=600)


def test_files_that_cannot_be_opened(tmp_path):
    missing, folder, locked = (tmp_path / f"{name}.uai" for name in ("no", "folder", "locked"))
    folder.mkdir()
    locked.write_bytes(campaign.UAI[0])
    locked.chmod(0)
    odd = [missing, folder, tmp_path / ("a" * 300 + ".uai"), tmp_path / "a\0b.uai"]
    if os.geteuid():  # the superuser may read everything
        odd.append(locked)
    for path in odd:
        for read in (dai.read, dai.read_evidence):
            with pytest.raises(DeltaAIError) as caught:
                read(path)
            assert len(str(caught.value).splitlines()) == 1


def test_names_from_a_file_are_quoted_harmlessly(tmp_path):
    name = "\x1b[31mred\x85" + "a" * 5000
    text = f'variable a {{ type discrete [2] {{ no yes }}; }} probability ( a | "{name}" ) {{ }}'
    (tmp_path / "odd.bif").write_text(text)
    with pytest.raises(DeltaAIError) as caught:
        dai.read(tmp_path / "odd.bif")
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 2000
