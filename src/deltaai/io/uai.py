"""The UAI format: Markov and Bayesian networks as tables of plain numbers.

    MARKOV            or BAYES (capitals or not)
    3                 number of variables
    2 2 3             their numbers of states
    2                 number of functions
    2 0 1             a scope: its length, then its variables
    2 1 2
    4                 a table: its length, then its entries, the last variable fastest
     1.0 0.5 0.5 1.0
    6
     ...

Line breaks mean no more than spaces, except that a line that begins with the word ``c`` is a
comment. Functions of a MARKOV file become :class:`~deltaai.models.TableFactor`; those of a BAYES
file become :class:`~deltaai.models.ConditionalTable`, whose child is the last of the scope.

The format has no names: variable ``i`` is read as ``x{i}`` with states ``"0"``, ``"1"``, ..., and
names and labels are lost in writing. A factor without variables is written as a constant table
over the first variable, because other readers refuse an empty scope; it is read without protest.
Solution files (``.MAR``, ``.PR``) are in :mod:`deltaai.io.uai_solutions`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right

from deltaai.errors import FormatError
from deltaai.io.decimals import NumberProblem, Numbers, logarithms, to_decimals, to_numbers
from deltaai.io.directed import (
    describe_cycle,
    directed_cycle,
    missing_child,
    repeated_child,
    why_not_bayesian,
)
from deltaai.io.flat_tables import LARGEST_ARITY, FlatTables, offsets_of, tables_of
from deltaai.io.source import Source, excerpt
from deltaai.io.states_only import refuse_real
from deltaai.models import FactorGraph, Variable
from deltaai.watch import look

_COMMENT = re.compile(r"^c(?![^ \t\n])[^\n]*", re.MULTILINE)


def parse_uai(source: Source) -> FactorGraph:
    """Read a model from the text of a UAI file."""
    text = _COMMENT.sub("", source.text)  # the line break stays, so lines keep their numbers
    return _Parser(Source(source.path, text)).model()


class _Parser:
    """Walks through the words of a file; ``place`` is the next one to be read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.words = source.words()
        self.place = 0

    def model(self) -> FactorGraph:
        is_directed = self.is_directed()
        sizes = self.sizes()
        scopes, scope_places = self.scopes(len(sizes))
        if is_directed:
            self.check_directed(len(sizes), scopes, scope_places)
        tables = self.tables(sizes, scopes)
        self.words = []  # which take more memory than the model
        look()
        variables = [Variable(f"x{v}", size) for v, size in enumerate(sizes)]
        return tables.as_model(variables, is_directed=is_directed)

    def is_directed(self) -> bool:
        kind = self.words[0].upper() if self.words else ""
        if kind not in {"MARKOV", "BAYES"}:
            raise self.error(0, f"expected MARKOV or BAYES, found {excerpt(kind)}")
        self.place = 1
        return kind == "BAYES"

    def sizes(self) -> list[int]:
        num_variables = self.count("the number of variables")
        sizes = []
        for v in range(num_variables):
            sizes.append(self.natural(f"the number of states of variable {v}"))
            if sizes[-1] == 0:
                raise self.error(
                    self.place - 1, f"variable {v} has no states; it needs one or more"
                )
        # Tables with all their entries cannot need more; a claim of 10^12 states is refused here.
        if sum(sizes) > 16 * len(self.words) + 2**16:
            largest = max(range(num_variables), key=sizes.__getitem__)
            raise self.error(
                2 + largest,
                f"the variables claim {sum(sizes)} states in all (variable {largest}: "
                f"{sizes[largest]}), more than a file of {len(self.words)} words can use",
            )
        return sizes

    def scopes(self, num_variables: int) -> tuple[list[tuple[int, ...]], list[int]]:
        num_functions = self.count("the number of functions")
        scopes, places = [], []
        for function in range(num_functions):
            look()
            places.append(self.place)
            arity = self.count(f"the length of the scope of function {function}")
            if arity > LARGEST_ARITY:
                raise self.error(
                    places[-1],
                    f"function {function} has {arity} variables, and at most {LARGEST_ARITY} are "
                    "supported",
                )
            what = f"a variable of function {function}"
            scope = tuple([self.natural(what) for _ in range(arity)])
            for index, v in enumerate(scope):
                if v >= num_variables:
                    raise self.error(
                        places[-1] + 1 + index,
                        f"function {function} names variable {v}, but variables are numbered 0 to "
                        f"{num_variables - 1}",
                    )
            if len(set(scope)) < arity:
                raise self.error(places[-1], f"function {function} names a variable twice: {scope}")
            scopes.append(scope)
        return scopes, places

    def check_directed(
        self, num_variables: int, scopes: list[tuple[int, ...]], places: list[int]
    ) -> None:
        empty = next((function for function, scope in enumerate(scopes) if not scope), None)
        if empty is not None:
            raise self.error(places[empty], f"function {empty} of a BAYES file has no variable")
        if (again := repeated_child(scopes)) is not None:
            raise self.error(
                places[again],
                f"variable {scopes[again][-1]} is the child (last of the scope) of two functions; "
                "expected one function a variable in a BAYES file",
            )
        if (variable := missing_child(num_variables, scopes)) is not None:
            raise self.error(
                places[0] if places else self.place - 1,
                f"variable {variable} is the child (last of the scope) of no function; expected "
                "one function a variable in a BAYES file",
            )
        if (cycle := directed_cycle(scopes)) is not None:
            culprit = next(i for i, scope in enumerate(scopes) if scope[-1] == cycle[0])
            ring = describe_cycle(cycle, [str(v) for v in range(num_variables)])
            raise self.error(places[culprit], f"the scopes of this BAYES file have a cycle: {ring}")

    def tables(self, sizes: list[int], scopes: list[tuple[int, ...]]) -> FlatTables:
        entries: list[str] = []
        begins, lengths = [], []
        for function, scope in enumerate(scopes):
            num_entries = self.natural(f"the number of entries of function {function}")
            # One-state variables aside, arity bounds the product: no huge integers arise.
            if num_entries != (expected := math.prod([sizes[v] for v in scope])):
                raise self.error(
                    self.place - 1,
                    f"function {function} has {expected} joint states, but its table is announced "
                    f"with {num_entries} entries",
                )
            if num_entries > len(self.words) - self.place:
                raise self.source.error_at_end(
                    f"the file ends within the table of function {function}: expected "
                    f"{num_entries} entries, found {len(self.words) - self.place}"
                )
            begins.append(self.place)
            lengths.append(num_entries)
            entries += self.words[self.place : self.place + num_entries]
            self.place += num_entries
        if self.place < len(self.words):
            found = excerpt(" ".join(self.words[self.place : self.place + 8]))
            raise self.error(self.place, f"expected nothing after the last table, found {found}")
        offsets = offsets_of(lengths)
        try:
            log_values: Numbers = logarithms(to_numbers(entries))
        except NumberProblem as problem:
            function = bisect_right(offsets.tolist(), problem.index) - 1
            place = begins[function] + problem.index - int(offsets[function])
            raise self.error(place, f"table of function {function}: {problem.message}") from None
        tables = FlatTables(tuple(scopes), offsets, log_values)
        if (function_or_none := tables.first_all_zero()) is not None:
            raise self.error(
                begins[function_or_none],
                f"the table of function {function_or_none} is zero everywhere, so every state is "
                "impossible; expected a positive entry",
            )
        return tables

    def natural(self, what: str) -> int:
        """Read a number 0, 1, 2, ..."""
        word = self.words[self.place] if self.place < len(self.words) else ""
        if not (word.isascii() and word.isdigit() and len(word) <= 30):
            raise self.error(
                self.place, f"expected {what} as a whole number, found {excerpt(word)}"
            )
        self.place += 1
        return int(word)

    def count(self, what: str) -> int:
        """Read how many things follow; there must be a word for each."""
        number = self.natural(what)
        if number > (num_left := len(self.words) - self.place):
            raise self.error(
                self.place - 1, f"{what} is {number}, but only {num_left} words follow in the file"
            )
        return number

    def error(self, place: int, message: str) -> FormatError:
        return self.source.error_at_word(place, message)


def format_uai(model: FactorGraph) -> str:
    """Write a model as the text of a UAI file: BAYES if it is a Bayesian network, else MARKOV.

    Raises
    ------
    ConversionError
        When a value does not fit in a double, or the tables are too large.
    """
    refuse_real(model, "a UAI file")
    tables = tables_of(model)
    is_directed = model.num_variables > 0 and why_not_bayesian(model) is None
    num_states = [variable.num_states for variable in model.variables]
    decimals = to_decimals(tables.log_values)
    scope_lines: list[str] = []
    table_lines: list[str] = []
    for scope, begin, end in zip(
        tables.scopes, tables.offsets[:-1].tolist(), tables.offsets[1:].tolist(), strict=True
    ):
        entries = decimals[begin:end]
        scope_lines.append(" ".join(map(str, (len(scope), *scope))))
        table_lines += ["", str(len(entries))]
        width = num_states[scope[-1]] if scope else 1
        table_lines += [
            " " + " ".join(entries[row : row + width]) for row in range(0, len(entries), width)
        ]
    head = [
        "BAYES" if is_directed else "MARKOV",
        str(len(num_states)),
        " ".join(map(str, num_states)),
        str(len(scope_lines)),
    ]
    return "\n".join([*head, *scope_lines, *table_lines]) + "\n"
