"""Starting: what is postponed behaves as if it were imported."""

from __future__ import annotations

import inspect
import subprocess
import sys

from tidelore.cli.entry import _cleandoc

STARTED = """
from tidelore.cli import entry
entry._postpone_imports()
from tidelore.cli.main import main
assert main(["search", "--help"]) == 0
import decimal, gettext, inspect, msgspec, platform, textwrap, threading, typing_extensions, uuid
assert inspect.isfunction(entry.run) and typing_extensions.Annotated
assert gettext.gettext("a") == "a" and gettext.ngettext("one", "more", 2) == "more" and gettext.NullTranslations()
assert platform.system() and platform.machine() == platform.uname().machine
assert textwrap.dedent("  a") == "a" and isinstance(msgspec.inspect.type_info(int), msgspec.inspect.IntType)
assert decimal.Decimal("0.1") + 1 == decimal.Decimal("1.1") and uuid.UUID(int=1).int == 1 and uuid.uuid4().version == 4
told = threading.Event()
threads = [threading.Thread(target=told.set), threading.Thread(target=told.wait)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert told.is_set() and threading.current_thread() is threading.main_thread()
print("all is there")
"""


def test_a_help_text_of_one_line_is_cleaned_as_by_the_library() -> None:
    for text in ("Only this.", "  Only\tthis. ", "", "Two\n    lines\n      in all\n"):
        assert _cleandoc(text) == inspect.cleandoc(text)


def test_postponed_modules_can_be_imported_after_the_start() -> None:
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Search issues, merge requests" in done.stdout
    assert done.stdout.endswith("all is there\n")
