"""Hostile names of databases, roles, scripts and clusters through every format."""

import csv
import html.parser
import io
import json
import re

from common import SHORT
from lab import free_of_controls
from postgres import Server

NAMES = ("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"><svg onload=alert(1)>", "' onmouseover='alert(1)",
         "=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "a\tb", "a\nb", "\x1b[31mred", "\x1b]0;title\x07", "a\u202eb", "a\u009bb",
         "[x](javascript:alert(1))", "`x` | a | b", "![x](http://x)", "**b** _i_ ~~s~~", "a\\b", "%s%n%d", "{{7*7}}", "${x}",
         "]]>", "--><b>", "&lt;b&gt;", "a" * 60, "é😀", "\"quoted\"", "a;b,c", "\r", "\x7f", "</style><script>1</script>")

ATTACKS = re.compile(r"<script>|<img|<svg|<b>|</style>", re.I)


class Elements(html.parser.HTMLParser):
    """What a browser would make of a page, as far as it could run something."""

    def __init__(self):
        super().__init__()
        self.wrong = []

    def handle_starttag(self, tag, attrs):
        if tag in ("img", "iframe", "object", "embed", "b"):
            self.wrong.append(f"element {tag}")
        for name, value in attrs:
            if name.startswith("on"):
                self.wrong.append(f"attribute {name}")
            if (value or "").strip().lower().startswith(("javascript:", "data:text")):
                self.wrong.append(f"{name}={value!r}")

    def handle_data(self, data):
        if self.lasttag == "script" and "alert(1)" in data:
            self.wrong.append("a script of the name's")


def judge(form, out, name):
    """What is wrong with an output in this format."""
    if form == "html":
        page = Elements()
        page.feed(out.decode("utf-8", "replace"))
        return page.wrong
    if form == "json":
        try:
            json.loads(out)
            return []
        except ValueError as error:
            return [f"no JSON: {error}"]
    wrong = [f"{form}: {free_of_controls(out)}"] if free_of_controls(out, b"\n\t\r" if form == "csv" else b"\n\t") else []
    text = out.decode("utf-8", "replace")
    if form == "csv":
        for row in csv.reader(io.StringIO(text)):
            for cell in row:
                if cell[:1] in "=+-@\t\r" and cell[:1] and not re.fullmatch(r"[-+]?[\d.eE+-]+|-", cell):
                    wrong.append(f"csv: a cell begins with {cell[:12]!r}")
    if form == "markdown":
        # In code spans and blocks all is text.
        plain = re.sub(r"```.*?```|`+[^`]*`+", "", text, flags=re.S)
        if ATTACKS.search(plain):
            wrong.append(f"markdown: raw {ATTACKS.search(plain).group()}")
        if re.search(r"(?<!\\)\]\(javascript:", plain):
            wrong.append("markdown: a link that runs a script")
    return wrong


def run(section):
    lab, work = section.lab, section.work
    with Server(lab, work / "server", settings={"max_connections": 30}) as server:
        for at, name in enumerate(section.through(NAMES)):
            quoted = '"' + name.replace('"', '""') + '"'
            server.psql(f"CREATE ROLE {quoted} LOGIN")
            server.psql(f"CREATE DATABASE {quoted} OWNER {quoted}")
            runs = work / f"runs-{at}"
            file = work / f"{name.replace('/', '')}.sql"
            file.write_text("SELECT 1;\n")
            value = lambda text: "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
            target = server.target(db=value(name), user=value(name), more=f"application_name={value(name)}")
            noise = lambda result: [f"stderr: {found}"] if (found := free_of_controls(result.err, b"\n\t\r")) else []
            section.try_("run", file, target, "--load", *SHORT, "--runs", runs, also=noise, timeout=60)
            for form in ("text", "html", "json", "markdown", "csv"):
                for command in (["report", "last"], ["diagnose", "last"]):
                    section.try_(*command, "--format", form, "--runs", runs,
                                 also=lambda result: judge(form, result.out, name) + noise(result) if result.code == 0 else noise(result),
                                 keep=[runs])
            for words, form in ((["runs", "list"], "text"), (["runs", "show", "last"], "text"), (["fit", "last"], "text"),
                                (["history", runs, "--format", "csv"], "csv"), (["history", runs, "--format", "html"], "html"),
                                (["history", runs, "--format", "markdown"], "markdown")):
                section.try_(*words, "--runs", runs, also=lambda result: judge(form, result.out, name) + noise(result), keep=[runs])
            section.try_("check", target, also=lambda result: judge("text", result.out, name) + noise(result))
            page = work / "page.html"
            section.try_("check", target, "--html", page,
                         also=lambda result: judge("html", page.read_bytes() if page.exists() else b"", name))
            elf = work / (name.replace("/", "") + ".so")
            elf.write_bytes((lab.bin / "postgres").read_bytes()[:4096])
            for way, form in (((), "text"), (("--markdown",), "markdown"), (("--json",), "json")):
                section.try_("inspect", elf, *way, also=lambda result: judge(form, result.out, name) + noise(result)
                             if result.out.strip() else noise(result))
            section.try_("check", server.target(db=value(name + "x"), user=value(name)), also=noise)
