# Run by scripts/layouts.sh inside gdb: prints the members of structures, one a line.
import gdb, os

def base(type):
    return type.strip_typedefs().unqualified()

def members(type, offset, prefix, depth):
    """Members with offset and size; structures within are opened, arrays are not."""
    for field in type.fields():
        if not hasattr(field, "bitpos"):
            continue
        at = offset + field.bitpos // 8
        kind = base(field.type)
        name = prefix + (field.name or "")
        inner = kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)
        opened = inner and kind.code == gdb.TYPE_CODE_STRUCT and depth > 0 and kind.sizeof > 8
        if opened or not field.name:
            yield from members(kind, at, name + ("." if field.name else ""), depth - 1)
        else:
            stride = kind.target().sizeof if kind.code == gdb.TYPE_CODE_ARRAY else 0
            yield at, kind.sizeof, stride, name

for wanted in os.environ["WANTED"].split():
    short = wanted.removeprefix("struct:")
    try:
        type = gdb.lookup_type("struct " + short if wanted != short else short)
    except gdb.error:
        continue
    type = base(type)
    print("struct %s %d" % (short, type.sizeof))
    for at, size, stride, name in members(type, 0, "", 1):
        print("%d %d %d %s" % (at, size, stride, name))
