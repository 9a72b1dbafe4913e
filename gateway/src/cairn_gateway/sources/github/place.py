"""Where a GitHub payload comes from."""

from __future__ import annotations

from cairn_gateway.sources.github.payloads import Repository
from cairn_gateway.sources.model import Delivery
from cairn_gateway.sources.place import Place, place

SOURCE = "github"


def place_of(repository: Repository, delivery: Delivery) -> Place:
    """The place of `repository`; GitHub keeps `X-GitHub-Delivery` when it delivers again."""
    return place(
        SOURCE,
        "github.com",
        full_name=repository.full_name,
        web_url=repository.html_url,
        clone_urls=[repository.clone_url, repository.ssh_url, repository.git_url],
        delivery=delivery,
        delivery_id=delivery.id_from("x-github-delivery"),
    )
