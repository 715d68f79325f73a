#!/usr/bin/env python3
"""What the program is made of, from Cargo.lock: licences in full, or an SBOM.

    scripts/components.py licences [engines/query]    all crates' licences and their texts
    scripts/components.py sbom [engines/query]        a CycloneDX 1.5 document

Exit code 1 if a crate names no licence, or brings no text of one and its expression is not known
below: then somebody must look.
"""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / (sys.argv[2] if len(sys.argv) > 2 else "")
NAME = "pgassay-query" if len(sys.argv) > 2 else "pgassay"
TARGETS = ("x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl", "powerpc64le-unknown-linux-musl")
# Crates that name their licence but bring no text of it: everything that they may be used under.
WITHOUT_TEXT = {"Apache-2.0", "MIT", "Zlib"}
# Crates that bring no text, and the one of the same repository and licence that does.
TEXT_OF = {"alloc-stdlib": "alloc-no-stdlib"}


def cargo(*words):
    command = ["cargo", *words, "--locked"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def metadata():
    """The packages that the program is linked from, or that run while it is built, on any of the
    processors; and which needs which."""
    document = json.loads(cargo("metadata", "--format-version", "1"))
    # metadata's graph has what any feature could bring; tree's, what is built.
    built = set()
    for target in TARGETS:
        lines = cargo("tree", "-p", NAME, "-e", "normal,build", "--prefix", "none", "--target", target)
        built |= {tuple(line.split()[:2]) for line in lines.splitlines() if line}
    packages = {
        package["id"]: package
        for package in document["packages"]
        if (package["name"], "v" + package["version"]) in built
    }
    edges = {
        node["id"]: [need["pkg"] for need in node["deps"] if need["pkg"] in packages]
        for node in document["resolve"]["nodes"]
        if node["id"] in packages
    }
    return packages, sorted(packages, key=lambda i: (packages[i]["name"], packages[i]["version"])), edges


def texts(package):
    """The licence files that a crate brings."""
    directory = Path(package["manifest_path"]).parent
    found = [
        path
        for path in sorted(directory.iterdir())
        if path.is_file() and path.name.upper().startswith(("LICEN", "COPYING", "NOTICE", "UNLICENSE"))
    ]
    return [(path.name, path.read_text(errors="replace").strip()) for path in found]


def licences():
    packages, wanted, _ = metadata()
    others = [packages[i] for i in wanted if packages[i]["source"]]
    by_name = {package["name"]: package for package in others}
    by_text = {}
    without = []
    print(f"{NAME} is made of these crates, each under the licence named beside it.\n")
    for package in others:
        name = f"{package['name']} {package['version']}"
        expression = package["license"]
        if not expression and not package["license_file"]:
            sys.exit(f"{name} names no licence")
        print(f"{name}: {expression or package['license_file']}")
        found = texts(package)
        other = by_name.get(TEXT_OF.get(package["name"]))
        if not found and other and other["license"] == expression and other["repository"] == package["repository"]:
            found = texts(other)
        if not found:
            words = set((expression or "").replace("/", " ").replace("(", " ").replace(")", " ").split())
            if not words & WITHOUT_TEXT:
                sys.exit(f"{name} brings no text of its licence ({expression})")
            without.append(name)
        for _, text in found:
            by_text.setdefault(text, []).append(name)
    if without:
        print("\nThese bring no text of their own; that of the licence named above holds, as it stands")
        print("in LICENSE-APACHE and LICENSE-MIT: " + ", ".join(without) + ".")
    for text, names in sorted(by_text.items(), key=lambda item: item[1]):
        print("\n" + "=" * 100 + "\n" + ", ".join(names) + "\n" + "=" * 100 + "\n\n" + text)


def sbom():
    packages, wanted, edges = metadata()

    def reference(package):
        return f"pkg:cargo/{package['name']}@{package['version']}"

    def component(package):
        return {
            "type": "application" if package["name"] == NAME else "library",
            "bom-ref": reference(package),
            "name": package["name"],
            "version": package["version"],
            **({"description": package["description"]} if package["description"] else {}),
            "licenses": [{"expression": (package["license"] or "").replace("/", " OR ")}],
            "purl": reference(package),
        }

    lock = (ROOT / "Cargo.lock").read_bytes()
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    stamp = subprocess.run(
        ["date", "-u", "-d", f"@{seconds}", "+%Y-%m-%dT%H:%M:%SZ"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    own = next(packages[i] for i in wanted if packages[i]["name"] == NAME)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # The same for the same Cargo.lock.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, lock.hex())}",
        "version": 1,
        "metadata": {"timestamp": stamp, "component": component(own)},
        "components": [component(packages[i]) for i in wanted if packages[i] is not own],
        "dependencies": [
            {
                "ref": reference(packages[i]),
                "dependsOn": sorted({reference(packages[need]) for need in edges[i]}),
            }
            for i in wanted
        ],
    }
    print(json.dumps(document, indent=1))


{"licences": licences, "sbom": sbom}[sys.argv[1]]()
