"""The entry point of the program. Answers `lore --version` before anything is imported.

No state of stdout (closed, full, unable to encode a character) ends in a traceback.
"""

from __future__ import annotations

import _thread
import gc
import io
import os
import sys
from types import ModuleType

from tidelore import __version__

_OBJECTS = 10_000
"""How many new objects trigger a garbage collection; most commands create fewer."""


class _Postponed(ModuleType):
    """A module that is imported when something of it is used, except what is given here."""

    def __init__(self, name: str, **given: object) -> None:
        super().__init__(name)
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> object:
        if name == "__path__":
            # `from module import name` asks this first: is it a package?
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        __import__(self.__name__)
        return getattr(sys.modules[self.__name__], name)


def _cleandoc(text: str) -> str:
    """Do what `inspect.cleandoc` does; click calls it for each option, and the help of an option is one line."""
    if "\n" not in text:
        return text.expandtabs().lstrip()
    sys.modules.pop("inspect", None)
    cleaned: str = __import__("inspect").cleandoc(text)
    return cleaned


def _untranslated(text: str, plural: str = "", number: int = 1) -> str:
    """Return a text as it is: click has no translations, but looks for them each time."""
    return text if number == 1 else plural


def _uncompiled(text: str, *_how: object) -> str:
    return text


def _postpone_imports() -> None:
    """Keep libraries from importing what hardly any command uses; together this is a fifth of the start."""
    postponed = (
        # click uses these for help texts.
        _Postponed("inspect", cleandoc=_cleandoc),
        _Postponed("gettext", gettext=_untranslated, ngettext=_untranslated),
        # msgspec uses these for JSON schemas.
        _Postponed("textwrap"),
        _Postponed("msgspec.inspect"),
        # msgspec imports all of its formats; only `lore move` uses one of these.
        _Postponed("msgspec.msgpack"),
        _Postponed("msgspec.toml"),
        _Postponed("msgspec.yaml"),
        # These are enough for one thread. Using any other name imports the real module.
        _Postponed("threading", local=_thread._local, Lock=_thread.allocate_lock, RLock=_thread.RLock),
    )
    for module in postponed:
        sys.modules.setdefault(module.__name__, module)
    if sys.version_info < (3, 12):
        # `datetime` defines its classes in Python and then replaces them by these; later versions do not.
        sys.modules.setdefault("datetime", __import__("_datetime"))
    # Forward references keep their text: `eval` accepts it too, hardly any is evaluated, and the first call of
    # `compile` creates the classes of all syntax trees.
    vars(__import__("typing"))["compile"] = _uncompiled
    _import_with(
        # msgspec prefers this to `typing`, which offers the same in every Python we support.
        {"typing_extensions": None}
        # msgspec encodes objects of these classes, and click reads a UUID from the command line. We have none of them.
        | {"decimal": _Postponed("decimal", Decimal=type("Decimal", (), {}))}
        | {"uuid": _Postponed("uuid", UUID=type("UUID", (), {}), SafeUUID=type("SafeUUID", (), {"unknown": None}))},
        "msgspec",
        "click",
    )


def _import_with(replaced: dict[str, _Postponed | None], *names: str) -> None:
    """Import modules that get these replacements for what they import; modules imported later get the originals."""
    modules: dict[str, _Postponed | None] = sys.modules  # type: ignore[assignment]
    missing = replaced.keys() - modules.keys()
    modules.update({name: replaced[name] for name in missing})
    for name in names:
        __import__(name)
    for name in missing:
        del modules[name]


def run() -> None:
    """Run the program and exit."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"lore {__version__}\n")
        return
    # Loading modules creates no garbage, and objects that modules create live until the end.
    gc.disable()
    _postpone_imports()
    from tidelore.cli.main import main

    gc.freeze()
    # Most commands end before they make enough objects to need a collection.
    gc.set_threshold(_OBJECTS)
    gc.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Replace characters that the terminal's encoding does not have.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = main(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe (`lore list | head`); this is not an error, and nothing more can be printed.
        _abandon_stdout()
        code = 0
    except OSError as error:
        _abandon_stdout()
        _leave(1, f"error: cannot write to stdout: {error.strerror}\n")
    _leave(code)


def _leave(code: int, message: str = "") -> None:
    """Exit without tearing down the interpreter, which would take longer than a read-only command."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(message)
            sys.stderr.flush()
    except OSError:
        # The terminal is gone.
        pass
    finally:
        os._exit(code)


def _abandon_stdout() -> None:
    """Redirect buffered output to /dev/null, so that the interpreter does not fail while exiting."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
