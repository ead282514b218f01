"""Which test modules still have to be compiled, and so whether the workers wait for the first of them."""

from __future__ import annotations

import os
from pathlib import Path

from _pytest.assertion.rewrite import PYC_TAIL
from tests.support.first_collection import count_stale


def test_a_module_is_stale_until_its_compiled_form_is_as_new_as_it_is(tmp_path: Path) -> None:
    module = tmp_path / "deeper" / "test_tide.py"
    compiled = module.parent / "__pycache__" / f"test_tide{PYC_TAIL}"
    compiled.parent.mkdir(parents=True)
    module.write_text("")
    assert count_stale(tmp_path) == 1
    compiled.write_bytes(b"")
    os.utime(module, (100, 100))
    os.utime(compiled, (100, 100))
    assert count_stale(tmp_path) == 0
    os.utime(module, (101, 101))
    assert count_stale(tmp_path) == 1
