#!/usr/bin/env python3
"""The shell of the templates in deploy/ci, for scripts/try-ci.sh to execute.

    ci-steps.py action               the composite action's step
    ci-steps.py github JOB           `arguments` and `accept` of a job's use of the action, a line each
    ci-steps.py gitlab JOB           a job's script, with its variables, as GitLab's runner concatenates it

Needs PyYAML. Contexts of GitHub (${{ github.workspace }}) are replaced from the environment
(GITHUB_WORKSPACE); one that is not known ends this with 1.
"""

import os
import re
import sys
from pathlib import Path

import yaml

CI = Path(__file__).resolve().parent.parent / "deploy/ci"


def load(name):
    return yaml.safe_load((CI / name).read_text())


def contexts(text):
    def value(found):
        name = found.group(1).replace(".", "_").upper()
        if name not in os.environ:
            sys.exit(f"ci-steps.py: no value for {found.group(0)}")
        return os.environ[name]

    return re.sub(r"\$\{\{ *([a-z_.]+) *\}\}", value, text)


def action():
    (step,) = load("action/action.yml")["runs"]["steps"]
    assert step["shell"] == "bash", step
    return step["run"]


def github(job):
    given = load("action/action.yml")["inputs"]
    (uses,) = [step for step in load("github.yml")["jobs"][job]["steps"] if "deploy/ci/action" in step.get("uses", "")]
    unknown = set(uses["with"]) - set(given)
    assert not unknown, unknown
    return "\n".join(contexts(uses["with"].get(name, given[name].get("default", ""))) for name in ("arguments", "accept"))


def gitlab(job):
    jobs = load("gitlab.yml")
    merged, variables = {}, {}
    chain = [jobs[job]]
    while "extends" in chain[0]:
        chain.insert(0, jobs[chain[0]["extends"]])
    for part in chain:
        variables.update(part.get("variables", {}))
        merged.update(part)
    # Variables may refer to others, so they are double-quoted. The runner's shell ends at the first failure.
    lines = ["set -eo pipefail"]
    lines += [f'export {name}="{value}"' for name, value in variables.items()]
    lines += merged.get("before_script", []) + merged["script"]
    return "\n".join(lines)


if __name__ == "__main__":
    kind, *words = sys.argv[1:]
    print({"action": action, "github": github, "gitlab": gitlab}[kind](*words))
