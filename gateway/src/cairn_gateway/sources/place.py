"""Where a delivery comes from: the start of the natural keys of everything in one repository."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cairn_gateway.sources.model import Delivery
from cairn_shared.documents.commits import Home
from cairn_shared.repositories.urls import canonical, host_of


@dataclass(frozen=True)
class Place:
    """A repository, `name` as its `host` calls it: `prefix` is that in lower case, with the host in front when it is
    not the source's own.
    """

    source: str
    host: str
    name: str
    prefix: str
    service: str
    urls: tuple[str, ...]
    delivery: Delivery
    delivery_id: str

    @property
    def home(self) -> Home:
        """What its commits need to know of it."""
        return Home(self.source, self.prefix, self.service)

    def subject(self, suffix: str) -> str:
        """The natural key of a thing in this repository."""
        return f"{self.prefix}{suffix}"

    def source_id(self, suffix: str) -> str:
        """The id of one event of this delivery."""
        return f"{self.delivery_id}|{self.prefix}{suffix}"


def place(
    source: str,
    home: str,
    *,
    full_name: str,
    web_url: str | None,
    clone_urls: Iterable[str | None],
    delivery: Delivery,
    delivery_id: str,
) -> Place:
    """The place of the repository `full_name`; forges compare names without regard to case, so its key has none."""
    host = host_of(web_url) or home
    name = full_name.lower()
    urls = [canonical(url) for url in (web_url, *clone_urls) if url]
    return Place(
        source=source,
        host=host,
        name=full_name,
        prefix=name if host == home else f"{host}/{name}",
        service=full_name.rpartition("/")[2],
        urls=tuple(dict.fromkeys(urls)),
        delivery=delivery,
        delivery_id=delivery_id,
    )
