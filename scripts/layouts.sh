#!/bin/sh
# Prints crates/measurement/lines/layouts/MAJOR.txt from a configured source tree of PostgreSQL: offsets of the
# members of what lies in shared memory, by the compiler's own debugging information, and the names
# of lightweight locks. x86-64; needs gcc, gdb, python3.
#
#   ./configure --without-readline --without-zlib && make -C src/backend generated-headers
#   scripts/layouts.sh DIR > crates/measurement/lines/layouts/15.txt
#
# Where a release's source is not to be had: DIR/src/include with the headers that it installs for extensions,
# and of each file below what comes before its first function. The result must then be compared with what the
# release's programs access (gdb: "disassemble GetRedoRecPtr", BackendPidGetProcWithLock, ProcGlobalShmemSize,
# BackendStatusShmemSize, ProcSignalShmemSize, CheckpointerShmemSize, SetStartupBufferPinWaitBufId).
set -eu
tree=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=$(sed -n 's/^#define PG_VERSION "\(.*\)"/\1/p' "$tree/src/include/pg_config.h")
echo "# PostgreSQL $number, x86-64, by scripts/layouts.sh: offset, size, size of an element, member."
look() {
    file=$tree/src/backend/$1
    shift
    [ -f "$file" ] || return 0
    gcc -g -O0 -fno-eliminate-unused-debug-types -D_GNU_SOURCE -I"$tree/src/include" -I"$(dirname "$file")" -c "$file" -o "$work/o.o" 2>/dev/null || return 0
    WANTED="$*" gdb -batch -nx -x "$here/layouts.py" "$work/o.o" 2>/dev/null
}
look storage/lmgr/proc.c PGPROC PROC_HDR PGXACT
look storage/buffer/bufmgr.c BufferDesc
look storage/buffer/freelist.c BufferStrategyControl
look storage/lmgr/lwlock.c LWLock LWLockPadded
look access/transam/xlog.c XLogCtlData WALInsertLockPadded WALInsertLock
look access/transam/varsup.c VariableCacheData TransamVariablesData
look access/transam/multixact.c MultiXactStateData
look access/transam/slru.c SlruSharedData
look storage/ipc/procarray.c ProcArrayStruct
look storage/ipc/sinvaladt.c SISeg ProcState
look storage/ipc/procsignal.c ProcSignalSlot
look storage/ipc/pmsignal.c PMSignalData
look utils/hash/dynahash.c struct:HASHHDR FreeListData HASHELEMENT
look storage/lmgr/lock.c LOCK PROCLOCK
look utils/activity/backend_status.c PgBackendStatus
look postmaster/pgstat.c PgBackendStatus
look postmaster/checkpointer.c CheckpointerShmemStruct
look utils/activity/pgstat_shmem.c PgStat_ShmemControl PgStatShared_HashEntry PgStatShared_Common PgStatShared_Relation PgStatShared_Database
TREE=$tree python3 - <<'PY'
import os, re
tree = os.environ["TREE"]
read = lambda name: open(os.path.join(tree, name), errors="replace").read() if os.path.exists(os.path.join(tree, name)) else ""
header = read("src/include/storage/lwlock.h")
source = read("src/backend/storage/lmgr/lwlock.c")
number = {}
for name, value in re.findall(r"#define\s+(\w+)\s+(\d+)\b", header):
    number[name] = int(value)
single = {}
for value, name in re.findall(r"PG_LWLOCK\((\d+),\s*(\w+)\)", read("src/include/storage/lwlocklist.h")):
    single[int(value)] = name
if not single:
    for line in read("src/backend/storage/lmgr/lwlocknames.txt").splitlines():
        found = re.match(r"(\w+?)Lock\s+(\d+)", line)
        if found:
            single[int(found[2])] = found[1]
if not single:
    for name, value in re.findall(r"#define (\w+)Lock \(&MainLWLockArray\[(\d+)\]\.lock\)", read("src/include/storage/lwlocknames.h")):
        single[int(value)] = name
individual = max(single) + 1
for value, name in sorted(single.items()):
    print("tranche %d %s" % (value, name))
listed = re.search(r"BuiltinTrancheNames\[\]\s*=\s*\{(.*?)\};", source, re.S)
body = re.sub(r"/\*.*?\*/", "", listed[1], flags=re.S)
pairs = re.findall(r'\[(LWTRANCHE_\w+)\]\s*=\s*"(\w+)"', body)
enum = re.search(r"typedef enum BuiltinTrancheIds\s*\{(.*?)\}", header, re.S)
if enum:
    enum = re.sub(r"/\*.*?\*/", "", enum[1], flags=re.S)
    ids = re.findall(r"(LWTRANCHE_\w+)", enum)
else:
    ids = []
if pairs:
    names = dict(pairs)
else:
    names = dict(zip(ids, re.findall(r'"(\w+)"', body)))
if not ids:
    for line in read("src/include/storage/lwlocklist.h").splitlines():
        found = re.match(r"PG_LWLOCKTRANCHE\((\w+),\s*(\w+)\)", line)
        if found:
            ids.append("LWTRANCHE_" + found[1]); names[ids[-1]] = found[2]
for at, id in enumerate(i for i in ids if i != "LWTRANCHE_FIRST_USER_DEFINED"):
    print("tranche %d %s" % (individual + at, names.get(id, id.removeprefix("LWTRANCHE_"))))
print("fixed %d %d %d %d" % (individual, number.get("NUM_BUFFER_PARTITIONS", 128),
    1 << number.get("LOG2_NUM_LOCK_PARTITIONS", 4), 1 << number.get("LOG2_NUM_PREDICATELOCK_PARTITIONS", 4)))
PY
