"""Command lines that cannot be read: one line, the nearest word there is, and exit code 2."""

import pytest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["querry", "asia"], "there is no command 'querry'; did you mean 'query'? See 'deltaai -"),
        (
            ["zzz"],
            "there is no command 'zzz'; one of bench, check, conditional,",
        ),
        (["a\nb"], "there is no command"),
        (["--nope"], "there is no option '--nope'; see 'deltaai --help'"),
        (["query", "--nonsense"], "there is no option '--nonsense'; see 'deltaai query --help'"),
        (["query", "x", "--tim", "3"], "no option '--tim'; did you mean '--time-limit'? See 'del"),
        (["query", "x", "--methd", "bp"], "no option '--methd'; did you mean '--method'? See"),
        (["query"], "FILE is missing; see 'deltaai query --help'"),
        (["fit", "asia"], "--output is missing; see 'deltaai fit --help'"),
        (["query", "asia", "--seed", "x"], "--seed"),
        (["query", "asia", "--time-limit", "abc"], "--time-limit"),
        (["sample", "asia", "-n", "1.5"], "--number"),
        (["query", "asia", "extra"], "extra"),
        (["query", "asia", "-e"], "see 'deltaai query --help'"),
        (["query", "asia", "--json=3"], "--json"),
    ],
)
def test_a_line_that_cannot_be_read_is_one_line(run, words, said):
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ")
    assert said in err
    assert "see 'deltaai" in err.lower()
    assert "python -m" not in err


def test_values_that_cannot_be_read_are_shown(run):
    assert "--seed is 'x'" in run("query", "asia", "--seed", "x")[2]


def test_no_command_at_all_shows_help(run):
    code, out, err = run()
    assert code == 2
    assert "Usage: deltaai " in out + err
    assert "error" not in err
