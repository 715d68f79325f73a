"""The sections in their order, and each one's share of the time."""

from . import (archives, binaries, catalogue, clock, disks, facts, guest_kill, hostile_server, hostile_tls, kill, limits, names, outputs,
               places, pooler, proxy, roles, run_directories, sandboxes, schemas, scripts, secrets, signals, standby, terminate, users)

SECTIONS = {
    "binaries": (binaries, 4),
    "archives": (archives, 4),
    "run-directories": (run_directories, 4),
    "facts": (facts, 3),
    "scripts": (scripts, 2),
    "names": (names, 3),
    "outputs": (outputs, 1),
    "places": (places, 2),
    "secrets": (secrets, 3),
    "users": (users, 1),
    "limits": (limits, 2),
    "disks": (disks, 2),
    "clock": (clock, 1),
    "sandboxes": (sandboxes, 2),
    "hostile-server": (hostile_server, 5),
    "hostile-tls": (hostile_tls, 2),
    "proxy": (proxy, 4),
    "terminate": (terminate, 3),
    "signals": (signals, 3),
    "kill": (kill, 4),
    "guest-kill": (guest_kill, 4),
    "catalogue": (catalogue, 2),
    "roles": (roles, 2),
    "schemas": (schemas, 1),
    "pooler": (pooler, 1),
    "standby": (standby, 1),
}
