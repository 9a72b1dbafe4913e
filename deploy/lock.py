"""Writes or checks constraints.txt: the exact version of everything that Cairn installs.

    deploy/lock.py            write it from what is installed in this environment
    deploy/lock.py --check    say what is not pinned, pinned to what does not fit, or pinned for nobody

What is declared is read from every pyproject.toml (dependencies, extras, and the group `dev` of the root); what that
needs in turn from the metadata of the installed distributions, with extras and markers honoured.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("shared", "gateway", "ingest-consumer", "embedder", "retriever", "answerer", "deploy/local")
HEADER = """\
# Exact versions of everything that Cairn installs, development tools included. Written by `make lock`.
"""
NEVER_PINNED = {"pip"}  # it installs the rest


@dataclass(frozen=True)
class Declared:
    """A requirement, and the file that declares it."""

    requirement: Requirement
    where: str


def declared(root: Path) -> tuple[list[Declared], set[str]]:
    """All requirements of all pyproject.toml files, and the names of our own packages."""
    found: list[Declared] = []
    own: set[str] = set()
    for folder in PACKAGES:
        path = root / folder / "pyproject.toml"
        project = tomllib.loads(path.read_text())["project"]
        own.add(canonicalize_name(project["name"]))
        lists = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
        found += [Declared(Requirement(text), f"{folder}/pyproject.toml") for texts in lists for text in texts]
    for texts in tomllib.loads((root / "pyproject.toml").read_text()).get("dependency-groups", {}).values():
        found += [Declared(Requirement(text), "pyproject.toml") for text in texts]
    return [entry for entry in found if canonicalize_name(entry.requirement.name) not in own], own


def closure(wanted: Iterable[Requirement], *, everywhere: bool = False) -> dict[str, str]:
    """Name to version of all that `wanted` needs here, itself included.

    Args:
        wanted: What to begin with.
        everywhere: Follow requirements of other platforms and Python versions too, where they are installed.

    Raises:
        LookupError: something that is needed is not installed.
    """
    versions: dict[str, str] = {}
    done: set[tuple[str, str]] = set()
    waiting = [(requirement, "") for requirement in wanted]
    while waiting:
        requirement, extra = waiting.pop()
        if not _applies(requirement, extra, everywhere=everywhere):
            continue
        name = canonicalize_name(requirement.name)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if everywhere:
                versions.setdefault(name, "")
                continue
            raise LookupError(f"{requirement} is needed but not installed: run `make install`") from None
        versions[name] = Version(distribution.version).public  # without +cpu and the like: those are not everywhere
        for asked in ("", *requirement.extras):
            if (name, asked) not in done:
                done.add((name, asked))
                waiting += [(Requirement(text), asked) for text in distribution.requires or ()]
    return versions


def _applies(requirement: Requirement, extra: str, *, everywhere: bool) -> bool:
    if requirement.marker is None:
        return not extra  # with an extra only what that extra adds; the rest came with the plain name
    if everywhere:
        return "extra" not in str(requirement.marker) or requirement.marker.evaluate({"extra": extra})
    return requirement.marker.evaluate({"extra": extra})


def pins(text: str) -> dict[str, str]:
    """Name to version of a constraints file."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, version = line.partition("#")[0].strip().partition("==")
        if equals:
            found[canonicalize_name(name)] = version
    return found


def render(versions: Mapping[str, str]) -> str:
    """The text of the constraints file."""
    return HEADER + "".join(
        f"{name}=={version}\n" for name, version in sorted(versions.items()) if name not in NEVER_PINNED
    )


def problems(
    pinned: Mapping[str, str], wanted: Iterable[Declared], here: Mapping[str, str], anywhere: Iterable[str]
) -> Iterator[str]:
    """What is wrong with `pinned`, a line each.

    Args:
        pinned: The pins.
        wanted: What is declared.
        here: The closure in this environment.
        anywhere: Names that could be needed on another platform.
    """
    for entry in wanted:
        name: str = canonicalize_name(entry.requirement.name)
        if name in NEVER_PINNED:
            continue
        if name not in pinned:
            yield f"{entry.requirement} ({entry.where}) is not pinned"
        elif not entry.requirement.specifier.contains(pinned[name], prereleases=True):
            yield f"{entry.requirement} ({entry.where}) does not allow the pinned {pinned[name]}"
    for name, version in sorted(here.items()):
        if name in NEVER_PINNED:
            continue
        if name not in pinned:
            yield f"{name} {version} is installed and needed, but not pinned"
        elif pinned[name] != version:
            yield f"{name} is pinned to {pinned[name]}, but {version} is installed"
    for name in sorted(set(pinned) - set(here) - set(anywhere)):
        yield f"{name} is pinned, but nothing needs it"


def main() -> int:
    """Write or check. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing, exit with 1 where something is wrong")
    options = parser.parse_args()
    path = ROOT / "constraints.txt"
    wanted, _ = declared(ROOT)
    requirements = [entry.requirement for entry in wanted]
    try:
        here = closure(requirements)
    except LookupError as exc:
        print(exc, file=sys.stderr)
        return 1
    if not options.check:
        path.write_text(render(here))
        print(f"{path.name}: {len(here)} versions")
        return 0
    pinned = pins(path.read_text()) if path.exists() else {}
    wrong = list(dict.fromkeys(problems(pinned, wanted, here, closure(requirements, everywhere=True))))
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{path.name}: {'run `make lock`' if wrong else f'{len(pinned)} versions, current'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
