"""The fixtures that every other test stands on: fresh each time, real each time."""

from __future__ import annotations

from contextlib import suppress

import asyncpg
import pytest
from alembic.script import ScriptDirectory
from confluent_kafka import Consumer
from redis.asyncio import Redis

from cairn_local.migrate import alembic_config
from cairn_local.testing import TopicFactory
from cairn_shared.kafka.producer import open_producer
from cairn_shared.mongo import Database, open_database, transaction
from cairn_shared.settings import KafkaSettings, MongoSettings


@pytest.mark.parametrize("again", [1, 2])
async def test_postgres_dsn_is_a_migrated_database_without_rows(postgres_dsn: str, again: int) -> None:
    connection = await asyncpg.connect(postgres_dsn)
    try:
        assert await connection.fetchval("SELECT count(*) FROM corpus_state") == 1
        assert await connection.fetchval("SELECT count(*) FROM lexeme_df") == 0
        newest = ScriptDirectory.from_config(alembic_config()).get_current_head()
        assert await connection.fetchval("SELECT version_num FROM alembic_version") == newest
        await connection.execute("INSERT INTO lexeme_df VALUES ('left-over', 1)")
    finally:
        await connection.close()


@pytest.mark.parametrize("again", [1, 2])
async def test_redis_url_is_an_empty_database(redis_url: str, again: int) -> None:
    async with Redis.from_url(redis_url) as client:
        assert await client.dbsize() == 0
        await client.set("left-over", 1)


async def abandoned(database: Database) -> None:
    with suppress(ZeroDivisionError):
        async with transaction(database) as session:
            await database["things"].insert_one({"kept": False}, session=session)
            raise ZeroDivisionError


@pytest.mark.parametrize("again", [1, 2])
async def test_mongo_settings_name_an_empty_database_with_transactions(
    mongo_settings: MongoSettings, again: int
) -> None:
    async with open_database(mongo_settings, "test") as database:
        assert await database.list_collection_names() == []
        await database.create_collection("things")
        await abandoned(database)
        async with transaction(database) as session:
            await database["things"].insert_one({"kept": True}, session=session)
        assert [row["kept"] async for row in database["things"].find()] == [True]


async def test_kafka_topics_are_created_with_their_partitions_and_take_records(
    kafka_settings: KafkaSettings, kafka_topics: TopicFactory
) -> None:
    topic = kafka_topics("orders", partitions=3)
    assert topic.startswith("orders.")
    async with open_producer(kafka_settings, "test") as producer:
        delivery = await producer.send(topic, key=b"k", value=b"v", headers=[("h", b"1")], partition=2)
    assert (delivery.topic, delivery.partition, delivery.offset) == (topic, 2, 0)
    consumer = Consumer(
        {
            "bootstrap.servers": kafka_settings.kafka_bootstrap_servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 2000,  # Tansu holds the first join of a group for half of it
            "heartbeat.interval.ms": 500,
        }
    )
    try:
        consumer.subscribe([topic])
        message = None
        for _ in range(100):
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                break
        assert message is not None
        assert (message.value(), message.headers()) == (b"v", [("h", b"1")])
    finally:
        consumer.close()
