from __future__ import annotations

import sys
from pathlib import Path

import hypothesis

sys.path.insert(0, str(Path(__file__).parent / "support"))
# A busy machine is no failure: pytest-timeout bounds a test as a whole.
hypothesis.settings.register_profile("cairn", deadline=None)
hypothesis.settings.load_profile("cairn")
