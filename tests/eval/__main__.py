"""`python tests/eval`: how good search and answers are, on the sets in data/eval and on public runbooks. See `--help`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent / "support"))

import eval_answers_report
import eval_judge
import eval_judge_run
import eval_left_out
import eval_report
import eval_suite
from eval_sets import CHECKOUT


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="tests/eval", description=__doc__)
    parser.add_argument("--ablate", action="store_true", help="also measure what each part contributes (long)")
    parser.add_argument("--calibrate", action="store_true", help="also fit the relevance gate, and print its numbers")
    parser.add_argument("--write", metavar="DSN", help="with --calibrate: store the numbers in this database")
    parser.add_argument(
        "--judge",
        type=int,
        nargs="?",
        const=20,
        metavar="N",
        help="only have N answers (20) judged by a language model",
    )
    parser.add_argument(
        "--plans", action="store_true", help="only measure what is told of plans of models (no servers)"
    )
    parser.add_argument(
        "--left-out",
        action="store_true",
        help="only measure the order of pages on each public corpus, fitted without it",
    )
    parser.add_argument("--fit", action="store_true", help="with --left-out: also fit the model that is shipped")
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
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    if options.judge is not None:
        return judge(console, options.out, options.judge, stamp, as_json=options.json)
    if options.left_out or options.fit:
        asyncio.run(eval_left_out.run(console, options.out, write=options.fit))
        return 0
    missed = eval_answers_report.run(console, options.out)
    kept = eval_answers_report.FILE
    if not options.plans:
        suite = eval_suite.Suite(console, options.out, stamp=stamp)
        results = asyncio.run(suite.run(eval_suite.Wanted(options.ablate, options.calibrate, options.write)))
        missed += results["missed"]
        kept = eval_report.LATEST
    if options.json:
        print(json.dumps(json.loads((options.out / kept).read_text())))
    for target in missed:
        console.print(f"[red]missed[/]: {target}")
    return 1 if options.check and missed else 0


def judge(console: Console, out: Path, count: int, stamp: str, *, as_json: bool) -> int:
    """Have answers judged. Ends with 2 where there is no judge, with 1 where none of its verdicts can be used."""
    found = eval_judge.Judge.from_environment()
    if found is None:
        console.print(f"[red]{eval_judge.MISSING}[/]")
        return 2
    if count < 1:
        console.print("[red]--judge: at least one question[/]")
        return 2
    results = asyncio.run(eval_judge_run.run(console, out, found, count, stamp=stamp))
    if as_json:
        print(json.dumps(json.loads((out / eval_judge_run.FILE).read_text())))
    return 0 if results["metrics"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
