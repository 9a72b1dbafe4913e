"""`python tests/eval`: how good the retriever is, on the sets in data/eval and on real alerts. See `--help`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent / "support"))

import eval_suite
from eval_sets import CHECKOUT


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="tests/eval", description=__doc__)
    parser.add_argument("--ablate", action="store_true", help="also measure what each part contributes (long)")
    parser.add_argument("--calibrate", action="store_true", help="also fit the relevance gate, and print its numbers")
    parser.add_argument("--write", metavar="DSN", help="with --calibrate: store the numbers in this database")
    parser.add_argument("--judge", type=int, default=20, metavar="N", help="questions for the LLM judge; 0 for none")
    parser.add_argument("--check", action="store_true", help="end with 1 when a target is missed")
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of tables")
    parser.add_argument(
        "--out", type=Path, default=CHECKOUT / ".cairn" / "eval", help="where results are kept (.cairn/eval)"
    )
    return parser.parse_args()


def main() -> int:
    """Measure, report, compare with the last run."""
    options = arguments()
    console = Console(stderr=options.json, width=None if sys.stdout.isatty() else 200)
    suite = eval_suite.Suite(console, options.out, stamp=datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"))
    wanted = eval_suite.Wanted(options.judge, options.ablate, options.calibrate, options.write)
    results = asyncio.run(suite.run(wanted))
    if options.json:
        print(json.dumps(json.loads((options.out / "latest.json").read_text())))
    missed = results["missed"]
    for target in missed:
        console.print(f"[red]missed[/]: {target}")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
