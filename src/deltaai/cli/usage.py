"""What is said about a command line that cannot be read: one line, with the nearest word there is.

The parser finds what is wrong; its sentences, over several lines in a box, are not used. Nothing
is parsed here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from deltaai.cli.running import PROGRAM
from deltaai.errors import did_you_mean, one_line, shown


def is_usage_error(error: BaseException) -> bool:
    """Whether the parser raised it, whichever version of the parser that is."""
    return any(kind.__name__ == "ClickException" for kind in type(error).__mro__)


def is_call_for_help(error: BaseException) -> bool:
    """Whether nothing was asked for, so that the parser has shown its help instead."""
    return type(error).__name__ == "NoArgsIsHelpError"


def usage_sentence(error: Any) -> str:  # noqa: ANN401 - of the parser's classes, by name
    """What is wrong, the nearest word there is, and where help is."""
    context = getattr(error, "ctx", None)
    path = _command_typed() if context is None else context.command_path
    what = _what(error, context)
    return f"{what}{' See' if what.endswith('?') else '; see'} '{path} --help'"


def _command_typed() -> str:
    """The program and its command, where the parser does not say which it was."""
    words = [PROGRAM, *sys.argv[1:2]]
    return " ".join(word for word in words if word.isalpha())


def _what(error: Any, context: Any) -> str:  # noqa: ANN401
    kind = type(error).__name__
    if kind == "NoSuchOption":
        name = str(error.option_name)
        known = list(_options(context))
        near = next((f"; did you mean {o!r}?" for o in known if o.startswith(name)), None)
        return f"there is no option {shown(name)}{near or did_you_mean(name, known)}"
    if kind == "MissingParameter" and error.param is not None:
        word = _spelled(error.param)
        return f"{word} is missing"
    unknown = _unknown_command(error, context)
    if unknown is not None:
        known = sorted(context.command.commands)
        near = did_you_mean(unknown, known)
        return f"there is no command {shown(unknown)}{near or '; one of ' + ', '.join(known)}"
    if kind == "BadParameter" and error.param is not None:
        return f"{_spelled(error.param)}{_value(error)}: {_plain(error.message)}"
    return _plain(error.format_message())


def _unknown_command(error: Any, context: Any) -> str | None:  # noqa: ANN401
    """The word that stands where a command should, if that is the matter."""
    commands = getattr(getattr(context, "command", None), "commands", None)
    message = str(getattr(error, "message", ""))
    if commands is None or not message.lower().startswith("no such command"):
        return None
    return message.split("'")[1] if message.count("'") >= 2 else message.rsplit(maxsplit=1)[-1]


def _options(context: Any) -> Iterator[str]:  # noqa: ANN401
    parameters = () if context is None else context.command.get_params(context)
    for parameter in parameters:
        yield from (word for word in parameter.opts if word.startswith("--"))


def _spelled(parameter: Any) -> str:  # noqa: ANN401
    """An option as it is typed, or the word that the help has for an argument."""
    options = [word for word in parameter.opts if word.startswith("-")]
    if options:
        return str(max(options, key=len))
    return str(getattr(parameter, "metavar", None) or parameter.name.upper())


def _value(error: Any) -> str:  # noqa: ANN401
    """The value that was typed, if what checked it remembers."""
    try:
        found = error.__cause__.errors()[0]["input"]
    except (AttributeError, LookupError, TypeError):
        return ""
    return f" is {shown(found)}"


def _plain(message: str) -> str:
    text = one_line(message).rstrip(".")
    return text[:1].lower() + text[1:]
