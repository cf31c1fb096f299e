"""Rows of evidence from tables and CSV files, good and bad."""

import gzip

import numpy as np
import pandas as pd
import pytest

import deltaai as dai
from deltaai.errors import DeltaAIError, EvidenceError, FormatError
from deltaai.io.evidence_table import rows_from_table

MODEL = dai.zoo.sprinkler()  # cloudy, sprinkler, rain, wet_grass: no or yes
EXPECTED = [[-1, -1, 1, -1], [-1, -1, -1, 0], [-1, -1, 0, 1]]


@pytest.mark.parametrize(
    "table",
    [
        [{"rain": "yes"}, {"wet_grass": "no"}, {"rain": 0, "wet_grass": 1}],
        pd.DataFrame({"rain": ["yes", None, "no"], "wet_grass": ["", "no", "yes"]}),
        pd.DataFrame({"rain": [1, np.nan, 0], "wet_grass": [np.nan, 0, 1]}),
        pd.DataFrame(
            {
                "rain": pd.array([1, None, 0], dtype="Int64"),
                "wet_grass": pd.Categorical([None, "no", "yes"]),
            },
            index=["a", "b", "c"],
        ),
        pd.DataFrame({"wet_grass": [" ", "no ", "1"], "rain": ["1", "  ", "0"]}),
    ],
)
def test_labels_numbers_and_blanks(table):
    assert rows_from_table(table, MODEL).tolist() == EXPECTED


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"rian": ["yes"]}), "no variable 'rian' in the model; did you mean 'rain'"),
        (pd.DataFrame({"rain": ["yes", "maybe"]}), "row 2: variable 'rain' has no state 'maybe'"),
        (pd.DataFrame({"rain": [0.5]}), "row 1: variable 'rain' has no state 0.5"),
        (pd.DataFrame({"rain": [2]}), "row 1: variable 'rain' has no state 2"),
        (pd.DataFrame([["yes", "no"]], columns=["rain", "rain"]), "two columns of one name"),
        ([{"rain": "yes"}, "rain"], "row 2 is a str, not a mapping"),
        ("rain", "rows of evidence are a str"),
        (3, "rows of evidence are a int"),
    ],
)
def test_bad_tables_are_refused(table, message):
    with pytest.raises(EvidenceError, match=message):
        rows_from_table(table, MODEL)


def test_a_csv_file(tmp_path):
    text = 'rain,wet_grass\nyes,\n\n"",no\nno,"yes"\n'
    (tmp_path / "cases.csv").write_text(text)
    assert dai.read_evidence_table(tmp_path / "cases.csv", MODEL).tolist() == EXPECTED
    (tmp_path / "cases.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert dai.read_evidence_table(tmp_path / "cases.csv.gz", MODEL).tolist() == EXPECTED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must name variables"),
        (",,\n1,2,3\n", "must name variables"),
        ("rain,wet_grass\nyes\n", "line 2: expected 2 cells"),
        ("rain,rain\nyes,no\n", "two columns have one name"),
        ("rian\nyes\n", "did you mean 'rain'"),
        (
            "rain\nyes\nperhaps\n",
            r"row 2 \(line 3 of the file\): variable 'rain' has no state 'perhaps'",
        ),
        ('rain\n"yes\n', "not a CSV file"),
    ],
)
def test_bad_files_are_refused_with_their_name(tmp_path, text, message):
    path = tmp_path / "cases.csv"
    path.write_text(text)
    with pytest.raises(DeltaAIError, match=message) as caught:
        dai.read_evidence_table(path, MODEL)
    assert "cases.csv" in str(caught.value)


def test_a_blank_line_is_a_case_where_there_is_one_column(tmp_path):
    (tmp_path / "cases.csv").write_text("rain\nyes\n\nno\n")
    found = dai.read_evidence_table(tmp_path / "cases.csv", MODEL)
    assert found[:, 2].tolist() == [1, -1, 0]


def test_a_missing_file_and_a_header_alone(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        dai.read_evidence_table(tmp_path / "none.csv", MODEL)
    (tmp_path / "empty.csv").write_text("rain\n")
    assert dai.read_evidence_table(tmp_path / "empty.csv", MODEL).shape == (0, 4)
