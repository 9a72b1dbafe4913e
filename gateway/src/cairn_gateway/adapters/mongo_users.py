"""Users, their roles and the hashes of their API keys, in MongoDB."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cairn_gateway.model import ApiKey, Principal, Role, User
from cairn_shared import mongo
from cairn_shared.clock import Clock
from cairn_shared.errors import NotFound
from cairn_shared.mongo import Document, Index

INDEXES = (Index("by_key", (("keys.hash", 1),), {"unique": True, "sparse": True}),)


class MongoUsers:
    """The collection `users`; also the `KeyDirectory` of authentication."""

    def __init__(self, database: mongo.Database, clock: Clock) -> None:
        self._users = database["users"]
        self._clock = clock

    async def ensure_indexes(self) -> None:
        await mongo.ensure_indexes(self._users, INDEXES)

    async def find_key(self, key_hash: str) -> Principal | None:
        with mongo.translated():
            document = await self._users.find_one({"keys.hash": key_hash}, {"role": 1, "keys.$": 1})
        if document is None:
            return None
        return Principal(document["_id"], Role(document["role"]), document["keys"][0]["id"])

    async def put(self, user: User) -> str:
        """Create or change; `created`, `changed` or `unchanged`. Keys stay."""
        fields: dict[str, Any] = {name: value for name, value in asdict(user).items() if name not in ("id", "keys")}
        fields["role"] = user.role.value
        before = await mongo.put(self._users, user.id, fields, {"created_at": self._clock.now()})
        if before is None:
            return "created"
        return "unchanged" if all(before.get(name) == value for name, value in fields.items()) else "changed"

    async def list(self) -> list[User]:
        """Everybody, in order of ids."""
        with mongo.translated():
            return [_user(document) async for document in self._users.find().sort("_id", 1)]

    async def remove(self, user_id: str) -> None:
        """Remove a user with every key.

        Raises:
            NotFound: there is no such user.
        """
        with mongo.translated():
            result = await self._users.delete_one({"_id": user_id})
        if result.deleted_count != 1:
            raise NotFound(f"there is no user {user_id}")

    async def add_key(self, user_id: str, key: ApiKey, key_hash: str) -> None:
        """Let a key in.

        Raises:
            NotFound: there is no such user.
        """
        fields = {"id": key.id, "label": key.label, "hash": key_hash, "created_at": key.created_at}
        with mongo.translated():
            result = await self._users.update_one({"_id": user_id}, {"$push": {"keys": fields}})
        if result.matched_count != 1:
            raise NotFound(f"there is no user {user_id}")

    async def remove_key(self, user_id: str, key_id: str) -> None:
        """Shut a key out.

        Raises:
            NotFound: the user has no such key.
        """
        with mongo.translated():
            result = await self._users.update_one(
                {"_id": user_id, "keys.id": key_id}, {"$pull": {"keys": {"id": key_id}}}
            )
        if result.modified_count != 1:
            raise NotFound(f"user {user_id} has no key {key_id}")


def _user(document: Document) -> User:
    keys = tuple(ApiKey(key["id"], key["label"], key["created_at"]) for key in document.get("keys", ()))
    return User(
        document["_id"],
        document["name"],
        Role(document["role"]),
        document.get("email"),
        document.get("team"),
        keys,
    )
