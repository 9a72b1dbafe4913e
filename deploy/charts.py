"""Are the charts' manifests valid? Renders them where Helm is, and judges what is rendered without any network.

    python deploy/charts.py            judge deploy/kubernetes/rendered, and say whether it is current
    python deploy/charts.py --write    render again (needs `helm`, version 3 or 4, on the PATH)

Helm comes by no Python index, so the rendered manifests are kept beside the charts with a digest of what they were
made from: without Helm a chart cannot be changed and its manifests forgotten. Kubernetes' own kinds are judged by
the schemas in the package kubernetes-validate, unknown fields included; those of operators by closed schemas of the
fields that are used here (deploy/kubernetes/operators.yaml).
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from jsonschema import Draft202012Validator

HERE = Path(__file__).parent / "kubernetes"
RENDERED = HERE / "rendered"
VERSION = "1.34"
DIGEST = "# of sources with the SHA-256 "


@dataclass(frozen=True)
class Rendering:
    """One way to install a chart: values files and single values on top."""

    chart: str
    values: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


RENDERINGS = {
    "stores": Rendering("stores"),
    "one-node": Rendering("cairn"),
    "production": Rendering(
        "cairn",
        ("cairn/values-production.yaml",),
        (
            "ingress.enabled=true",
            "ingress.host=cairn.example.com",
            "ingress.tlsSecret=cairn-tls",
            "externalSecret.enabled=true",
            "externalSecret.store.name=vault",
            "externalSecret.key=cairn",
            "publicUrl=https://cairn.example.com",
            "answerer.env.LLM_BASE_URL=https://llm.example.com/v1",
            "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=monitoring",
        ),
    ),
    "upgrade": Rendering("cairn", ("cairn/values-production.yaml",), (), ("--is-upgrade",)),
}


def sources(rendering: Rendering) -> Iterator[Path]:
    """Every file that the manifests are made from, in a fixed order."""
    yield from sorted(path for path in (HERE / rendering.chart).rglob("*") if path.is_file())


def digest(rendering: Rendering) -> str:
    """SHA-256 over the chart's files and the rendering's own values."""
    total = hashlib.sha256(repr(rendering).encode())
    for path in sources(rendering):
        total.update(str(path.relative_to(HERE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def render(rendering: Rendering, helm: str) -> str:
    """What `helm template` prints.

    Raises:
        subprocess.CalledProcessError: the chart cannot be rendered; Helm has said why.
    """
    command = [helm, "template", "cairn", str(HERE / rendering.chart), "--kube-version", f"v{VERSION}.0"]
    command += [f"--values={HERE / name}" for name in rendering.values]
    command += [f"--set={setting}" for setting in rendering.settings]
    done = subprocess.run([*command, *rendering.flags], check=True, text=True, stdout=subprocess.PIPE)  # noqa: S603
    return done.stdout


def documents(text: str) -> list[dict[str, Any]]:
    """The manifests of one rendering."""
    return [document for document in yaml.safe_load_all(text) if document]


def faults(manifest: dict[str, Any], operators: dict[str, Any]) -> list[str]:
    """What is wrong with one manifest, by its schema."""
    what = f"{manifest.get('kind')}/{manifest.get('metadata', {}).get('name')}"
    schema = operators.get(f"{manifest.get('apiVersion')}/{manifest.get('kind')}")
    if schema is not None:
        found = Draft202012Validator(schema).iter_errors(manifest)
        return [f"{what}: {'.'.join(map(str, error.absolute_path))}: {error.message}" for error in found]
    try:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    except kubernetes_validate.ValidationError as exc:
        return [f"{what}: {'.'.join(map(str, exc.path))}: {exc.message}"]
    except kubernetes_validate.SchemaNotFoundError:
        return [f"{what}: no schema for {manifest.get('apiVersion')} {manifest.get('kind')}"]
    return []


def check() -> list[str]:
    """Everything that is wrong with the kept manifests; empty when nothing is."""
    operators: dict[str, Any] = yaml.safe_load((HERE / "operators.yaml").read_text())
    wrong = []
    for name, rendering in RENDERINGS.items():
        path = RENDERED / f"{name}.yaml"
        text = path.read_text() if path.is_file() else ""
        if not text.startswith(DIGEST + digest(rendering)):
            wrong.append(f"{name}.yaml is older than its chart: `make charts` renders it (needs helm)")
        wrong += [f"{name}.yaml: {fault}" for manifest in documents(text) for fault in faults(manifest, operators)]
    return wrong


def write() -> None:
    """Render everything again.

    Raises:
        SystemExit: there is no helm.
    """
    helm = shutil.which("helm")
    if helm is None:
        sys.exit("helm is not on the PATH: https://helm.sh/docs/intro/install")
    RENDERED.mkdir(exist_ok=True)
    for name, rendering in RENDERINGS.items():
        text = "".join(line.rstrip() + "\n" for line in render(rendering, helm).splitlines())
        (RENDERED / f"{name}.yaml").write_text(f"{DIGEST}{digest(rendering)}; `make charts` writes this file\n{text}")


def main() -> int:
    """The command line; 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="render again, then judge")
    if parser.parse_args().write:
        write()
    wrong = check()
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
