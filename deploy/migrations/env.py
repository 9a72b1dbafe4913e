"""Alembic's entry: runs the migrations over the connection that the caller passes in, or over PG_DSN."""

from __future__ import annotations

import asyncio
import os

from alembic import context
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine


def run(connection: Connection) -> None:
    """Run each migration in a transaction of its own."""
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()


async def run_from_environment() -> None:
    """Connect to PG_DSN and run."""
    engine = create_async_engine(os.environ["PG_DSN"].replace("postgresql://", "postgresql+asyncpg://", 1))
    async with engine.connect() as connection:
        await connection.run_sync(run)
        await connection.commit()
    await engine.dispose()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    asyncio.run(run_from_environment())
