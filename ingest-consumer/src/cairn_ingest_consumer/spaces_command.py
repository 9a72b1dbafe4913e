"""`python -m cairn_ingest_consumer spaces [ls | use FINGERPRINT | drop FINGERPRINT]`: embedding models, by hand."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cairn_ingest_consumer.adapters.spaces import PostgresSpaces
from cairn_shared.postgres import open_pool
from cairn_shared.settings import PostgresSettings, load


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with code 2 and the reason when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m cairn_ingest_consumer spaces", description="Embedding models of the index (needs PG_DSN)."
    )
    actions = parser.add_subparsers(dest="action")
    actions.add_parser("ls", help="every model, its state, and how many chunks have a vector of it")
    use = actions.add_parser("use", help="go back to a retired model: it is completed, then switched to")
    drop = actions.add_parser("drop", help="delete the vectors of a model that searches do not use")
    for action in (use, drop):
        action.add_argument("fingerprint")
    parsed = parser.parse_args(arguments)
    parsed.action = parsed.action or "ls"
    return parsed


async def run(arguments: Sequence[str]) -> None:
    """Do it, and show what there is then.

    Raises:
        CairnError: PostgreSQL is away, or it refuses; the reason is in its detail.
    """
    parsed = parse(arguments)
    settings = load(PostgresSettings)
    async with open_pool(settings, "ingest-consumer-spaces") as pool:
        spaces = PostgresSpaces(pool)
        if parsed.action == "use":
            await spaces.use(parsed.fingerprint)
        elif parsed.action == "drop":
            await spaces.drop(parsed.fingerprint)
        total = await spaces.chunks()
        for space in await spaces.all():
            done = total - await spaces.missing(space) if space.table else 0
            print(f"{space.state:<9}{done}/{total}  {space.fingerprint}" + f"  ({space.problem})" * bool(space.problem))
