"""`python tests/eval/refinements.py`: what rewriting refused questions gains, and what harm it can do. See `--help`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

from eval_refine import main

if __name__ == "__main__":
    main()
