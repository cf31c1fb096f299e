"""Broken files of every kind we could think of, and what the complaint must say.

``BROKEN_FILES`` maps a name to the suffix of the file, its bytes, and words that the error message
must contain. Tests of the readers and of the command line run through all of them. Broken evidence
(``.evid``) is evidence about ``MODEL_OF_BROKEN_EVIDENCE``, a UAI file of one variable with two
states.
"""

from __future__ import annotations

import gzip

_GRID = b"MARKOV\n2\n2 3\n2\n1 0\n2 0 1\n\n2\n 0.5 1.0\n\n6\n 1 2 3\n 4 5 6\n"
_CHAIN = b"BAYES\n2\n2 2\n2\n1 0\n2 0 1\n\n2\n 0.5 0.5\n\n4\n 0.1 0.9\n 0.8 0.2\n"
_WET = b"""network unknown {
}
variable rain {
  type discrete [ 2 ] { no, yes };
}
variable wet {
  type discrete [ 3 ] { dry, damp, soaked };
}
probability ( rain ) {
  table 0.8, 0.2;
}
probability ( wet | rain ) {
  (no) 0.9, 0.1, 0.0;
  (yes) 0.2, 0.3, 0.5;
}
"""

MODEL_OF_BROKEN_EVIDENCE = b"MARKOV\n1\n2\n1\n1 0\n2\n 1.0 2.0\n"

VALID_UAI = (_GRID.decode(), _CHAIN.decode())
VALID_BIF = (
    _WET.decode(),
    """// a comment
network "my net" { property version 1; }
variable "rain today" { type discrete [ 2 ] { no, "yes, much" }; property "x = {1}" ; }
variable b /* why */ { type discrete[2]{0 1}; }
variable c { type discrete [ 2 ] { table, default }; }
probability ( "rain today" ) { table 0.25 0.75; }
probability ( b ) { default 0.5, 0.5; }
probability ( c | "rain today", b ) {
  (no, 0) 0.1, 0.9;
  ("yes, much", 1) 1e-3, 0.999;
  default 0.5, 0.5;
}
""",
)
VALID_EVIDENCE = ("2 0 1 1 2\n", "1\n2 0 1 1 2\n", "0\n")


def _swap(valid: bytes, old: bytes, new: bytes) -> bytes:
    assert valid.count(old) >= 1, old
    return valid.replace(old, new, 1)


BROKEN_FILES: dict[str, tuple[str, bytes, str]] = {
    # -- the file itself
    "empty_uai": (".uai", b"", "empty"),
    "blank_uai": (".uai", b" \n\n", "empty"),
    "empty_bif": (".bif", b"", "empty"),
    "unknown_suffix": (".txt", _GRID, "unknown kind of file"),
    "not_text": (".uai", b"MARKOV\n2\n2 \xff\xfe\n", "line 3: byte 0xff"),
    "latin_1": (".bif", _swap(_WET, b"soaked", b"tremp\xe9"), "line 7: byte 0xe9"),
    "compressed_without_suffix": (".uai", gzip.compress(_GRID), "must end in .gz"),
    "not_compressed": (".uai.gz", _GRID, "damaged or cut short"),
    "compressed_and_cut": (".bif.gz", gzip.compress(_WET)[:-20], "damaged or cut short"),
    "compressed_and_damaged": (
        ".uai.gz",
        gzip.compress(_GRID)[:-8] + b"\0\0\0\0" + gzip.compress(_GRID)[-4:],
        "damaged or cut short",
    ),
    "compressed_and_empty": (".uai.gz", gzip.compress(b""), "empty"),
    # -- UAI preamble
    "unknown_network_type": (".uai", _swap(_GRID, b"MARKOV", b"MARKOW"), "line 1: expected MARKOV"),
    "only_the_type": (".uai", b"MARKOV\n", "the number of variables"),
    "no_variable_count": (".uai", _swap(_GRID, b"\n2\n2 3", b"\nx\n2 3"), "line 2: expected the"),
    "negative_variable_count": (".uai", _swap(_GRID, b"\n2\n2 3", b"\n-2\n2 3"), "'-2'"),
    "fractional_states": (
        ".uai",
        _swap(_GRID, b"2 3\n", b"2 3.0\n"),
        "line 3: expected the number",
    ),
    "no_states": (".uai", _swap(_GRID, b"2 3\n", b"2 0\n"), "variable 1 has no states"),
    "too_many_variables": (".uai", b"MARKOV\n1000000000000\n2 2\n", "only 2 words follow"),
    "too_many_states": (".uai", b"MARKOV\n1\n1000000000000\n0\n", "line 3: the variables claim"),
    "states_of_a_thousand_digits": (".uai", b"MARKOV\n1\n" + b"9" * 5000 + b"\n0\n", "line 3"),
    "too_many_functions": (".uai", b"MARKOV\n1\n2\n99999999\n", "line 4: the number of functions"),
    "unknown_variable_in_scope": (".uai", _swap(_GRID, b"2 0 1", b"2 0 2"), "variable 2"),
    "variable_twice_in_scope": (".uai", _swap(_GRID, b"2 0 1", b"2 1 1"), "line 6: function 1"),
    "scope_too_long": (
        ".uai",
        b"MARKOV\n40\n"
        + b"1 " * 40
        + b"\n1\n40 "
        + b" ".join(b"%d" % v for v in range(40))
        + b"\n1\n1\n",
        "at most 31",
    ),
    "huge_table": (
        ".uai",
        b"MARKOV\n6\n1000 1000 1000 1000 1000 1000\n1\n6 0 1 2 3 4 5\n1000000000000000000\n1 1\n",
        "the file ends within the table",
    ),
    # -- UAI tables
    "cut_in_scopes": (".uai", _GRID[: _GRID.index(b"2 0 1") + 3], "words follow"),
    "cut_before_table": (
        ".uai",
        _GRID[: _GRID.index(b"6\n")],
        "the number of entries of function 1",
    ),
    "cut_in_table": (".uai", _GRID[:-4], "expected 6 entries, found 4"),
    "wrong_table_length": (".uai", _swap(_GRID, b"\n6\n", b"\n5\n"), "line 11: function 1 has 6"),
    "word_in_table": (".uai", _swap(_GRID, b"4 5 6", b"4 five 6"), "line 13: table of function 1"),
    "not_a_number_in_table": (".uai", _swap(_GRID, b"4 5 6", b"4 nan 6"), "finite"),
    "infinity_in_table": (".uai", _swap(_GRID, b"4 5 6", b"4 inf 6"), "finite"),
    "number_too_large": (".uai", _swap(_GRID, b"4 5 6", b"4 1e999 6"), "line 13"),
    "underscore_in_number": (".uai", _swap(_GRID, b"4 5 6", b"4 1_0 6"), "expected a number"),
    "negative_entry": (".uai", _swap(_GRID, b"4 5 6", b"4 -5 6"), "not negative"),
    "zero_everywhere": (
        ".uai",
        _swap(_GRID, b"0.5 1.0", b"0.0 0.0"),
        "line 9: the table of function 0",
    ),
    "words_after_the_tables": (".uai", _GRID + b"7 8\n", "line 14: expected nothing after"),
    # -- UAI Bayesian networks
    "child_twice": (".uai", _swap(_CHAIN, b"2 0 1", b"2 1 0"), "two functions"),
    "child_missing": (
        ".uai",
        b"BAYES\n2\n2 2\n1\n1 0\n2\n0.5 0.5\n",
        "variable 1 is the child (last of the scope) of no function",
    ),
    "cycle_in_bayes": (
        ".uai",
        b"BAYES\n2\n2 2\n2\n2 1 0\n2 0 1\n4\n.5 .5 .5 .5\n4\n.5 .5 .5 .5\n",
        "cycle: 0 -> 1 -> 0",
    ),
    "empty_scope_in_bayes": (".uai", b"BAYES\n1\n2\n1\n0\n1\n1.0\n", "has no variable"),
    # -- evidence
    "empty_evidence": (".evid", b"", "empty"),
    "evidence_too_short": (".evid", b"2 0 1 1\n", "2 observations need 4 numbers"),
    "evidence_too_long": (".evid", b"1 0 1 1 0\n", "1 observations need 2 numbers"),
    "evidence_with_words": (".evid", b"1\n1 x0 1\n", "line 2: expected a whole number"),
    "evidence_negative": (".evid", b"1 0 -1\n", "'-1'"),
    "evidence_twice": (".evid", b"2 0 1\n0 1\n", "line 2: variable 0 is observed twice"),
    "evidence_of_two_samples": (".evid", b"2\n1 0 1\n1 0 0\n", "2 samples"),
    "evidence_huge": (".evid", b"999999999999999999 0 1\n", "observations need"),
    "evidence_unknown_variable": (".evid", b"1 7 0\n", "variable 7 is observed"),
    "evidence_unknown_state": (".evid", b"1 0 2\n", "state 2"),
    # -- BIF blocks
    "bif_garbage": (".bif", b"hello world\n", "line 1: expected network, variable or probability"),
    "bif_only_network": (".bif", b"network x {\n}\n", "expected a variable block"),
    "bif_two_networks": (
        ".bif",
        b"network a { }\nnetwork b { }\n" + _WET,
        "line 2: found a second",
    ),
    "bif_network_not_closed": (".bif", b"network a {\n" + _WET[_WET.index(b"var") :], "expected }"),
    "bif_open_comment": (".bif", b"network a { }\n/* and so on\n" + _WET, "line 2: this comment"),
    "bif_open_quote": (
        ".bif",
        _swap(_WET, b"variable rain", b'variable "rain'),
        "line 3: this name",
    ),
    "bif_control_character": (".bif", _swap(_WET, b"damp", b"da\x01mp"), "line 7: found a control"),
    "bif_continuous": (".bif", _swap(_WET, b"discrete [ 2 ]", b"continuous"), "expected discrete"),
    "bif_no_type": (
        ".bif",
        _swap(_WET, b"  type discrete [ 2 ] { no, yes };\n", b""),
        "expected type",
    ),
    "bif_no_state_count": (".bif", _swap(_WET, b"[ 2 ]", b"[ ]"), "expected the number of states"),
    "bif_wrong_state_count": (
        ".bif",
        _swap(_WET, b"[ 3 ]", b"[ 4 ]"),
        "line 7: variable 'wet' has",
    ),
    "bif_huge_state_count": (".bif", _swap(_WET, b"[ 3 ]", b"[ 999999999 ]"), "lists 3"),
    "bif_state_twice": (".bif", _swap(_WET, b"damp", b"dry"), "the state 'dry' twice"),
    "bif_quoted_states": (
        ".bif",
        _swap(_WET, b"[ 3 ] { dry, damp", b'[ 2 ] { "not wet", damp'),
        "lists 3: 'not wet , damp, soaked'",
    ),
    "bif_quoted_unknown_state": (".bif", _swap(_WET, b"(yes)", b'("may be")'), "no state 'may be'"),
    "bif_quoted_unknown_parent": (".bif", _swap(_WET, b"| rain", b'| "a rain"'), "for 'a rain'"),
    "bif_no_states": (".bif", _swap(_WET, b"[ 2 ] { no, yes }", b"[ 0 ] { }"), "lists 0"),
    "bif_variable_twice": (
        ".bif",
        _swap(_WET, b"variable wet", b"variable rain"),
        "second variable",
    ),
    "bif_empty_name": (".bif", _swap(_WET, b"variable wet", b'variable ""'), "empty name"),
    "bif_cut_in_variable": (".bif", _WET[:90], "variable block: expected"),
    "bif_cut_in_rows": (".bif", _WET[:-20], "expected } after the rows, found the end of the file"),
    "bif_no_head": (".bif", _swap(_WET, b"( rain )", b""), "line 9: probability block: expected ("),
    "bif_two_children": (
        ".bif",
        _swap(_WET, b"wet | rain", b"wet, rain"),
        "line 12: expected ( var",
    ),
    "bif_bar_without_parents": (".bif", _swap(_WET, b"wet | rain", b"wet |"), "expected parents"),
    "bif_two_bars": (".bif", _swap(_WET, b"wet | rain", b"wet | rain | rain"), "after one |"),
    "bif_unknown_parent": (".bif", _swap(_WET, b"| rain", b"| rian"), "did you mean 'rain'"),
    "bif_unknown_child": (
        ".bif",
        _swap(_WET, b"( wet", b"( snow"),
        "line 12: no variable block for",
    ),
    "bif_own_parent": (".bif", _swap(_WET, b"wet | rain", b"wet | wet"), "names 'wet' twice"),
    "bif_probability_twice": (
        ".bif",
        _WET + b"probability ( rain ) { table 0.5, 0.5; }\n",
        "line 16: variable 'rain' has a second probability block",
    ),
    "bif_probability_missing": (
        ".bif",
        _WET[: _WET.index(b"probability ( wet")],
        "line 6: variable 'wet' has no probability block",
    ),
    "bif_cycle": (
        ".bif",
        _swap(
            _swap(_WET, b"( rain )", b"( rain | wet )"),
            b"table 0.8, 0.2;",
            b"default 0.8, 0.2;",
        ),
        "line 9: the network has the cycle rain -> wet -> rain",
    ),
    # -- BIF rows
    "bif_row_twice": (".bif", _swap(_WET, b"(yes)", b"(no)"), "line 14: a second row for (no)"),
    "bif_row_missing": (
        ".bif",
        _swap(_WET, b"  (yes) 0.2, 0.3, 0.5;\n", b""),
        "line 12: no row for (yes)",
    ),
    "bif_table_missing": (".bif", _swap(_WET, b"  table 0.8, 0.2;\n", b""), "line 9: no table"),
    "bif_unknown_state": (".bif", _swap(_WET, b"(yes)", b"(maybe)"), "line 14: no state 'maybe'"),
    "bif_too_many_states_in_row": (
        ".bif",
        _swap(_WET, b"(yes)", b"(yes, no)"),
        "expected 1 states",
    ),
    "bif_too_few_numbers": (
        ".bif",
        _swap(_WET, b"0.3, 0.5", b"0.8"),
        "line 14: expected 3 numbers",
    ),
    "bif_too_many_numbers": (
        ".bif",
        _swap(_WET, b"0.8, 0.2", b"0.8, 0.1, 0.1"),
        "line 10: expected 2",
    ),
    "bif_numbers_moved": (
        ".bif",
        _swap(_swap(_WET, b"0.9, 0.1, 0.0;", b"0.9, 0.1;"), b"0.5;", b"0.5, 0.0;"),
        "line 13: expected 3 numbers, found 2",
    ),
    "bif_word_for_number": (".bif", _swap(_WET, b"0.3", b"O.3"), "line 14: expected a number"),
    "bif_not_a_number": (".bif", _swap(_WET, b"0.3", b"NaN"), "line 14: expected a number that is"),
    "bif_negative": (".bif", _swap(_WET, b"0.3", b"-0.3"), "found '-0.3'"),
    "bif_zero_everywhere": (".bif", _swap(_WET, b"0.8, 0.2", b"0, 0"), "zero everywhere"),
    "bif_no_semicolon": (".bif", _swap(_WET, b"0.2;\n}", b"0.2\n}"), "expected ; at the end"),
    "bif_semicolon_lost_between_rows": (".bif", _swap(_WET, b"0.0;", b"0.0"), "line 14"),
    "bif_no_bracket": (".bif", _swap(_WET, b"(yes) 0.2", b"(yes 0.2"), "line 14: expected )"),
    "bif_bare_row": (
        ".bif",
        _swap(_WET, b"(yes) 0.2", b"yes 0.2"),
        "line 14: expected a row or table",
    ),
    "bif_two_defaults": (
        ".bif",
        _swap(_WET, b"(no) 0.9, 0.1, 0.0;", b"default 1, 0, 0; default 1, 0, 0;"),
        "a second default row",
    ),
    "bif_two_tables": (".bif", _swap(_WET, b"0.2;", b"0.2; table 0.8, 0.2;"), "a second table"),
    "bif_table_and_rows": (
        ".bif",
        _swap(_WET, b"(no) 0.9, 0.1, 0.0;", b"table 1 0 0 1 0 0;"),
        "a table and other rows",
    ),
    "bif_huge_default": (
        ".bif",
        b"".join(b"variable v%d { type discrete [ 4 ] { a b c d }; }\n" % v for v in range(31))
        + b"".join(b"probability ( v%d ) { table 1 0 0 0; }\n" % v for v in range(30))
        + b"probability ( v30 | "
        + b", ".join(b"v%d" % v for v in range(30))
        + b" ) { default 1 0 0 0; }\n",
        "default rows stand for",
    ),
    "bif_too_many_parents": (
        ".bif",
        b"".join(b"variable v%d { type discrete [ 1 ] { a }; }\n" % v for v in range(40))
        + b"".join(b"probability ( v%d ) { table 1; }\n" % v for v in range(39))
        + b"probability ( v39 | "
        + b", ".join(b"v%d" % v for v in range(39))
        + b" ) { default 1; }\n",
        "at most 30",
    ),
}
