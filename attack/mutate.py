"""Foreign bytes, damaged: files, JSON documents, texts."""

import json

INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
               0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF)

WORDS = (b"\0", b"\xff\xff\xff\xff", b"%s%n", b"\x1b[31m", b"'", b'"', b"\r\n", b"${", b"../", b"\xc0\x80", b"-1",
         b"99999999999999999999", b"1e999", b"NaN", b"{", b"}", b"[" * 64)

VALUES = (None, True, False, 0, -1, 1, 1e308, -1e308, 1e-320, 2**31, 2**63 - 1, -2**63, 2**64, 10**40, 0.5, "", "x", "NaN",
          "9" * 400, "\x1b[2J", "\u202e", "\x00", "=1+1", [], {}, [[]], [None], {"": None}, "a" * 100_000)


def damage(rng, data, front=4096):
    """A few changes, half of them near the front, where headers are."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not data:
            data += bytes(rng.randrange(256) for _ in range(8))
        limit = len(data) if rng.random() < 0.5 else min(front, len(data))
        at = rng.randrange(limit)
        what = rng.randrange(10)
        if what == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            data[at] = rng.randrange(256)
        elif what in (2, 3, 4):
            width = rng.choice((1, 2, 4, 8))
            value = rng.choice(INTERESTING) & ((1 << 8 * width) - 1)
            data[at:at + width] = value.to_bytes(width, rng.choice(("little", "big")))
        elif what == 5:
            del data[at:]
        elif what == 6:
            length = rng.randrange(1, 4096)
            other = rng.randrange(len(data))
            data[at:at + length] = data[other:other + length]
        elif what == 7:
            del data[at:at + rng.randrange(1, 256)]
        elif what == 8:
            data[at:at] = rng.choice(WORDS)
        else:
            length = rng.randrange(1, 512)
            data[at:at + length] = bytes(rng.choice((0, 0xFF)) for _ in range(min(length, len(data) - at)))
    return bytes(data)


def fitting(times, line):
    """So many of a line, or as many as are some MiB: a document may be one line."""
    return max(1, min(times, (8 << 20) // (len(line) + 1)))


def damage_text(rng, data):
    """Lines and numbers of a text, or its bytes."""
    if rng.random() < 0.3:
        return damage(rng, data, 512)
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 2, 5))):
        at = rng.randrange(len(lines))
        what = rng.randrange(6)
        if what == 0:
            del lines[at:at + rng.randrange(1, 5)]
            lines = lines or [b""]
        elif what == 1:
            again = lines[rng.randrange(len(lines))]
            lines[at:at] = [again] * fitting(rng.choice((1, 2, 1000)), again)
        elif what == 2:
            words = lines[at].split()
            if words:
                words[rng.randrange(len(words))] = rng.choice(WORDS)
            lines[at] = b" ".join(words)
        elif what == 3:
            lines[at] = lines[at] * fitting(rng.choice((2, 200)), lines[at])
        elif what == 4:
            lines[at] = lines[at][:rng.randrange(len(lines[at]) + 1)] + rng.choice(WORDS)
        else:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


def places(value, found, path=()):
    """Every place in a document, as a path of keys."""
    found.append(path)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        places(inner, found, (*path, key))


def damage_document(rng, value):
    """Other values, missing keys, doubled elements."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 2, 5))):
        found = []
        places(value, found)
        path = rng.choice(found)
        if not path:
            continue
        holder = value
        for key in path[:-1]:
            holder = holder[key]
        key, what = path[-1], rng.randrange(6)
        if what == 0:
            del holder[key]
        elif what == 1 and isinstance(holder, list):
            # Copies: one element in many places would multiply with whatever is doubled in it later.
            again = json.dumps(holder[key])
            times = fitting(rng.choice((1, 50)), again)
            holder[key:key] = [json.loads(again) for _ in range(times)]
        elif what == 2 and isinstance(holder, dict):
            holder[rng.choice(("", "\x1b", str(key) + "x"))] = holder.pop(key)
        elif what == 3 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            holder[key] = rng.choice((-holder[key], holder[key] * 10**9, 0, holder[key] + 1))
        elif what == 4 and isinstance(holder[key], str):
            text = holder[key]
            holder[key] = rng.choice((text[:len(text) // 2], text * fitting(50, text), text.upper(), text + "\x1b]0;x\x07"))
        else:
            # A copy: a list that is put into itself has no end.
            holder[key] = json.loads(json.dumps(rng.choice(VALUES)))
    return value


def damage_json(rng, data):
    """A document or lines of documents; the bytes where it is neither."""
    if rng.random() < 0.25:
        return damage_text(rng, data)
    try:
        return json.dumps(damage_document(rng, json.loads(data))).encode()
    except ValueError:
        pass
    lines = data.split(b"\n")
    filled = [n for n, line in enumerate(lines) if line.strip()]
    try:
        at = rng.choice(filled)
        lines[at] = json.dumps(damage_document(rng, json.loads(lines[at]))).encode()
    except (ValueError, IndexError):
        return damage_text(rng, data)
    return b"\n".join(lines)
