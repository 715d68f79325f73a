#!/bin/bash
# pgassay through the exec of container engines: the server and its load in a container, the load alone from two,
# a client of exec and a near side that are killed, and a container that is killed in the middle.
#
#   scripts/test-containers.sh PROGRAM [docker|podman|kubectl ...]     as root; docker and kubectl, if they are here and none is named
#
# podman 4.3 now and then ends an exec without a word on a busy machine, so it is asked only by name.
#
# Each engine gets storage, sockets and directories of its own, which go at the end. The containers have this system's
# /usr, read only, and everything else of their own. kubectl's pods are containerd's; between the two stands
# kubernetes-node.py in place of an API server and a kubelet.
set -euo pipefail
program=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
shift
[ "$(id -u)" = 0 ] || { echo "test-containers.sh: the engines are started as root" >&2; exit 3; }
PATH=$PATH:/usr/sbin
engines=("$@")
has() { command -v "$1" >/dev/null; }
if [ ${#engines[@]} = 0 ]; then
    ! { has dockerd && has docker; } || engines+=(docker)
    ! { has kubectl && has containerd; } || engines+=(kubectl)
fi
[ ${#engines[@]} -gt 0 ] || {
    echo "test-containers.sh: no container engine is here (Debian: apt-get install docker.io containerd runc)" >&2
    exit 3
}

place=$(mktemp -d /var/tmp/pgassay-containers-XXXXXX)
chmod 755 "$place"
id=pgassay-$$
daemons=()
engine='' kind=''
end_daemons() { # the last first
    local n
    for ((n = ${#daemons[@]} - 1; n >= 0; n--)); do
        kill "${daemons[n]}" 2>/dev/null && wait "${daemons[n]}" 2>/dev/null || true
    done
    daemons=()
}
finish() {
    [ $? = 0 ] || tail -n 5 "$place"/err >&2 || true
    [ -z "$engine" ] || [ "$kind" = kubectl ] || $engine rm -f "$id-0" "$id-1" "$id-2" >/dev/null 2>&1 || true
    end_daemons
    # Mounts that an engine left.
    awk -v p="$place/" 'index($2, p) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount -l 2>/dev/null || true
    if ! grep -q " $place/" /proc/mounts; then rm -rf --one-file-system "$place"; fi
}
trap finish EXIT
failed() { echo "test-containers.sh: $*" >&2; exit 1; }
waits_for() { # seconds, what, command
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || {
            tail -n 5 "$place"/*.log >&2 || true
            failed "no $what"
        }
        sleep 0.2
    done
}

# A root of its own: users, and links into /usr.
root=$place/rootfs
mkdir -p "$root"/{usr,proc,sys,dev,etc,tmp,run,root,home,var/tmp,var/lib,var/log}
chmod 1777 "$root/tmp" "$root/var/tmp"
for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$root/$dir"; done
for file in passwd group nsswitch.conf ld.so.cache alternatives postgresql-common; do
    [ ! -e "/etc/$file" ] || cp -a "/etc/$file" "$root/etc/"
done
cp "$(realpath /etc/os-release)" "$root/etc/os-release"

# What carries a command into a container, before the command.
into() {
    case $kind in
    kubectl) echo "$engine exec -i $1 --" ;;
    *) echo "$engine exec -i $1" ;;
    esac
}
kill_container() {
    case $kind in
    kubectl) $engine delete pod "$1" --now --wait=false ;;
    *) $engine kill "$1" ;;
    esac >/dev/null
}
in_container() { $(into "$1") sh -c "$2" </dev/null; }
processes() { # in a container, by a pattern; not the shell that looks
    in_container "$1" 'for p in /proc/[0-9]*; do tr "\0" " " <"$p/cmdline"; echo; done 2>/dev/null' | grep -E "$2"
}
files() { # of a session, and of its server
    in_container "$1" 'ls -d /var/tmp/pgassay-far-* /var/tmp/pgassay-0/clusters/* 2>/dev/null; true' | grep .
}
SERVER='/bin/postgres|^postgres' AGENT='/pgassay/far/'
clean() { ! processes "$1" "$SERVER|$AGENT" && ! files "$1"; }
trials() { [ "$(cat "$1"/*/trials.jsonl 2>/dev/null | wc -l)" -ge 2 ]; }
complete() { grep -q '"state": *"complete"' "$1"; }

measured() {
    local short=(--clients 2 --trials 6 --time 0.2 --warmup 0 --scale 1 --quiet)
    local runs=$place/runs-$kind
    echo "$kind: the server and its load in a container"
    "$program" run select-only "exec:$(into "$id-0") // temp" "${short[@]}" --runs "$runs" --json >"$place/one.json" 2>"$place/err"
    complete "$place/one.json" || failed "the run in a container is not complete"
    "$program" inspect "exec:$(into "$id-0") // temp" >/dev/null 2>"$place/err"
    waits_for 10 "end of what ran in the container" clean "$id-0"

    echo "$kind: the load in two containers, the server outside"
    "$program" run select-only temp --listen 127.0.0.1 --from "exec:$(into "$id-1"),exec:$(into "$id-2")" \
        "${short[@]}" --runs "$runs" --json >"$place/two.json" 2>"$place/err"
    complete "$place/two.json" || failed "the run with load from two containers is not complete"
    waits_for 10 "end of the first that gave load" clean "$id-1"
    waits_for 10 "end of the second" clean "$id-2"
}

# What is killed while it measures: trials are kept, and nothing runs on.
killed() {
    local what=$1 runs=$place/$kind-$1 measuring code=0
    echo "$kind: $what is killed"
    "$program" run select-only "exec:$(into "$id-0") // temp" --clients 2 --trials 60 --time 1 --warmup 0 --scale 1 --quiet \
        --runs "$runs" >/dev/null 2>"$place/err" &
    measuring=$!
    waits_for 60 "second trial" trials "$runs"
    { processes "$id-0" "$SERVER" && processes "$id-0" "$AGENT" && files "$id-0"; } >/dev/null ||
        failed "what runs in the container is not seen"
    case $what in
    client) pkill -KILL -P "$measuring" ;;
    near-side) kill -KILL "$measuring" ;;
    container) kill_container "$id-0" ;;
    esac
    wait "$measuring" 2>/dev/null || code=$?
    trials "$runs" || failed "finished trials were lost"
    [ "$what" = container ] || waits_for 10 "end of what ran in the container" clean "$id-0"
    if [ "$what" = near-side ]; then return; fi
    if [ $code != 4 ] || ! grep -q "was lost" "$place/err"; then
        cat "$place/err" >&2
        failed "the exit code is $code"
    fi
}

# An image of the root, as `docker save` writes it, and in it what keeps a pod's namespaces.
archive() {
    mkdir "$place/image"
    echo 'int pause(void); int main(void) { for (;;) pause(); }' | cc -static -x c - -o "$root/pause"
    tar -C "$root" -cf "$place/image/layer.tar" .
    local layer
    layer=$(sha256sum <"$place/image/layer.tar" | cut -d' ' -f1)
    cat >"$place/image/config.json" <<JSON
{"architecture": "amd64", "os": "linux", "config": {"Entrypoint": ["/pause"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$layer"]}}
JSON
    echo '[{"Config": "config.json", "RepoTags": ["docker.io/library/pgassay-test:latest"], "Layers": ["layer.tar"]}]' \
        >"$place/image/manifest.json"
    tar -C "$place/image" -c .
}

begin() {
    case $kind in
    docker)
        # Without a bridge and rules of a firewall: this system's network is left as it is.
        dockerd --data-root "$place/docker" --exec-root "$place/docker-exec" --host "unix://$place/docker.socket" \
            --pidfile "$place/docker.pid" --bridge none --iptables=false --ip-forward=false --ip-masq=false \
            --oom-score-adjust 0 >"$place/docker.log" 2>&1 &
        daemons+=($!)
        engine="docker --host unix://$place/docker.socket"
        waits_for 30 "docker daemon" $engine version
        ;;
    podman)
        # runc, because crun starts nothing where cgroups of both versions are in use.
        engine="podman --root $place/podman --runroot $place/podman-run --tmpdir $place/podman-tmp --events-backend file"
        engine+=" --cgroup-manager cgroupfs --runtime runc"
        ;;
    kubectl)
        local python=$here/../target/tools/containers/bin/python socket=$place/containerd.socket ports
        "$python" -c 'import grpc' 2>/dev/null || {
            python3 -m venv --clear "$here/../target/tools/containers"
            "$python" -m pip install --quiet --disable-pip-version-check grpcio
        }
        cat >"$place/containerd.toml" <<TOML
version = 2
root = "$place/containerd"
state = "$place/containerd-state"
[grpc]
address = "$socket"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/library/pgassay-test:latest"
stream_server_address = "127.0.0.1"
restrict_oom_score_adj = true
TOML
        containerd --config "$place/containerd.toml" >"$place/containerd.log" 2>&1 &
        daemons+=($!)
        waits_for 30 "containerd" ctr --address "$socket" version
        archive >"$place/image.tar"
        ctr --address "$socket" --namespace k8s.io images import "$place/image.tar" >/dev/null
        ports=$("$python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
        "$python" "$here/kubernetes-node.py" "$socket" "$ports" docker.io/library/pgassay-test:latest "$id-0" "$id-1" "$id-2" \
            >"$place/node.log" 2>&1 &
        daemons+=($!)
        engine="kubectl --server http://127.0.0.1:$ports"
        waits_for 30 "pod" $engine get --raw "/api/v1/namespaces/default/pods/$id-2"
        return
        ;;
    *) failed "$kind is none of docker, podman and kubectl" ;;
    esac
    tar -C "$root" -c . | $engine import - pgassay-test >/dev/null 2>"$place/err"
    # More than this process may have can't be given to a container. A network of its own for the server; the load reaches
    # a server outside by this system's.
    local n network=none
    for n in 0 1 2; do
        $engine run --detach --ulimit nofile=1024:4096 --ulimit nproc=4096:4096 --network $network --name "$id-$n" \
            --volume /usr:/usr:ro pgassay-test sleep 1000000 >/dev/null
        network=host
    done
}

for kind in "${engines[@]}"; do
    begin
    measured
    killed client
    killed near-side
    killed container
    [ "$kind" = kubectl ] || $engine rm -f "$id-0" "$id-1" "$id-2" >/dev/null 2>&1
    end_daemons
    engine=
    case $kind in
    docker) echo "$(dockerd --version): all of it works" ;;
    podman) echo "$(podman --version): all of it works" ;;
    kubectl) echo "kubectl $(kubectl version --client 2>/dev/null | sed -n 's/^Client Version: //p'), $(containerd --version): all of it works" ;;
    esac
done
