#!/usr/bin/env python3
"""Pods without a cluster: containerd's runtime interface (CRI), and as much of Kubernetes' API before it as
`kubectl exec`, `kubectl get pod` and `kubectl delete pod` ask for. For scripts/test-containers.sh.

    kubernetes-node.py CONTAINERD-SOCKET PORT IMAGE POD...

`kubectl exec` is handed on as an API server and a kubelet do it: CRI says where the container's streams are, and
the upgraded connection goes there byte by byte. Needs grpcio; messages are coded by hand, as few are needed.
"""

import json
import re
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

import grpc

NODE, OWN = 2, 1  # NamespaceMode: this system's, or one of the container's own


def number(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def message(*fields):
    """A message of (field, value): a text, a message, a number; what is None is left out."""
    out = b""
    for field, value in fields:
        if isinstance(value, str):
            value = value.encode()
        if isinstance(value, bytes):
            out += number(field << 3 | 2) + number(len(value)) + value
        elif value is not None:
            out += number(field << 3) + number(int(value))
    return out


def first_text(answer):
    """The text that is a message's first field."""
    assert answer[0] == 1 << 3 | 2, answer
    size, at, shift = 0, 1, 0
    while True:
        byte = answer[at]
        size, at, shift = size | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return answer[at:at + size].decode()


class Runtime:
    def __init__(self, address):
        self.channel = grpc.insecure_channel(f"unix://{address}")
        grpc.channel_ready_future(self.channel).result(timeout=30)

    def call(self, method, request):
        return self.channel.unary_unary(f"/runtime.v1.RuntimeService/{method}")(request, timeout=60)

    def pod(self, name, image):
        # All take this system's network, for which no plugin is needed.
        spaces = message((1, NODE), (2, OWN), (3, OWN))
        sandbox = message(
            (1, message((1, name), (2, f"{name}-uid"), (3, "default"))),
            (8, message((2, message((1, spaces))))),
        )
        held = first_text(self.call("RunPodSandbox", message((1, sandbox))))
        container = message(
            (1, message((1, "main"))),
            (2, message((1, image))),
            (3, "sleep"), (4, "1000000"),
            (7, message((1, "/usr"), (2, "/usr"), (3, True))),
            (15, message((2, message((3, spaces))))),
        )
        made = self.call("CreateContainer", message((1, held), (2, container), (3, sandbox)))
        made = first_text(made)
        self.call("StartContainer", message((1, made)))
        return held, made

    def streams(self, container, asked):
        """Where what the command reads and writes can be had."""
        flags = [asked.get(flag, ["false"])[0] in ("true", "1") for flag in ("tty", "stdin", "stdout", "stderr")]
        words = [(2, word) for word in asked["command"]]
        return first_text(self.call("Exec", message((1, container), *words, *zip((3, 4, 5, 6), flags))))

    def remove(self, sandbox, container):
        self.call("StopContainer", message((1, container), (2, 0)))
        self.call("StopPodSandbox", message((1, sandbox)))
        self.call("RemovePodSandbox", message((1, sandbox)))


def hand_on(source, sink):
    try:
        while block := source.recv(1 << 16):
            sink.sendall(block)
    except OSError:
        pass
    # A half that has ended ends the other's, too: so a client that is killed ends its streams.
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, code=200):
        body = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, code, why):
        self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": why}, code)

    def of_pod(self):
        """The pod that is named, and what of it."""
        found = re.fullmatch(r"/api/v1/namespaces/default/pods/([^/]+)(/exec)?", urlparse(self.path).path)
        return (found[1], found[2]) if found and found[1] in self.server.pods else (None, None)

    def do_GET(self):
        path = urlparse(self.path).path
        name, what = self.of_pod()
        if path == "/api":
            self.answer({"kind": "APIVersions", "versions": ["v1"]})
        elif path == "/apis":
            self.answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})
        elif path == "/api/v1":
            pods = {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "shortNames": ["po"],
                    "verbs": ["get", "delete"]}
            self.answer({"kind": "APIResourceList", "groupVersion": "v1", "resources": [pods]})
        elif what:
            # A WebSocket is what kubectl tries first; containerd of this age has SPDY, and kubectl goes on with that.
            self.refuse(403, "no WebSocket here")
        elif name:
            self.answer({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"},
                         "spec": {"containers": [{"name": "main"}]}, "status": {"phase": "Running"}})
        else:
            self.refuse(404, "not found")

    def do_DELETE(self):
        name, _ = self.of_pod()
        if not name:
            return self.refuse(404, "not found")
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.runtime.remove(*self.server.pods.pop(name))
        self.answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def do_POST(self):
        name, what = self.of_pod()
        if not what:
            return self.refuse(404, "not found")
        place = urlparse(self.server.runtime.streams(self.server.pods[name][1], parse_qs(urlparse(self.path).query)))
        node = socket.create_connection((place.hostname, place.port))
        lines = [f"POST {place.path} HTTP/1.1", *(f"{key}: {value}" for key, value in self.headers.items())]
        node.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        back = threading.Thread(target=hand_on, args=(node, self.connection), daemon=True)
        back.start()
        # What was read ahead of the upgrade, and then the connection itself.
        self.connection.setblocking(False)
        ahead = self.rfile.peek() if hasattr(self.rfile, "peek") else b""
        self.connection.setblocking(True)
        if ahead:
            node.sendall(ahead)
        hand_on(self.connection, node)
        back.join()
        node.close()
        self.close_connection = True


def main(address, port, image, *pods):
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Api)
    server.runtime = Runtime(address)
    server.pods = {name: server.runtime.pod(name, image) for name in pods}

    def end(*_):
        threading.Thread(target=server.shutdown).start()
    signal.signal(signal.SIGTERM, end)
    server.serve_forever()
    for pod in server.pods.values():
        server.runtime.remove(*pod)


if __name__ == "__main__":
    main(*sys.argv[1:])
