"""Alembic's entry: runs the migrations over the connection that the caller passes in, or over PG_DSN."""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine


def run(connection: Connection) -> None:
    """Run all migrations in one transaction each."""
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


connection = context.config.attributes.get("connection")
if connection is not None:
    run(connection)
else:
    import asyncio

    asyncio.run(run_from_environment())
