#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A scripted model: stands in for the model only, so that a real agent can work without any network.

    model.py SCRIPT.json PORT-FILE [LOG CERTIFICATE KEY]

With the last three it speaks TLS, and writes the path and the fields of every request to LOG, a line of JSON each.
Listens on a free port of 127.0.0.1 and writes it to PORT-FILE. Speaks the streaming and the plain form of Anthropic
Messages (POST …/messages) and OpenAI Responses (POST …/responses). The script is a list of steps: {"read": path},
{"write": [path, content]} and {"sh": command} become a call of the tool that the agent offers for it, {"tool": name, "input": {...}} one
of an MCP server's, {"text": words} the final answer.
Nothing is remembered between requests: the step is the number of tool results since the user last spoke."""
import json
import os
import shlex
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

with open(sys.argv[1], encoding="utf-8") as script_file:
    SCRIPT = json.load(script_file)
LOG = sys.argv[3] if len(sys.argv) > 3 else None

# Tools that agents are known to offer, and how each takes its input.
WRITE = {
    "Write": lambda path, content: {"file_path": path, "content": content},
    "write_file": lambda path, content: {"file_path": path, "content": content},
}
SHELL = {
    "Bash": lambda c: {"command": c, "description": "a step"},
    "exec_command": lambda c: {"cmd": c},
    "shell_command": lambda c: {"command": c},
    "shell": lambda c: {"command": ["bash", "-lc", c]},
}


def next_step(done, offered):
    """(tool name, its input), or (None, text)."""
    if not offered:
        return None, "a title"  # side requests, such as for a title, bring no tools
    step = SCRIPT[min(done, len(SCRIPT) - 1)]
    if "text" in step:
        return None, step["text"]
    if "tool" in step:
        for name in offered:
            if name.endswith("__" + step["tool"]):
                return name, step["input"]
        return None, f"no tool {step['tool']} among " + ", ".join(sorted(offered))
    if "read" in step:
        if "Read" in offered:
            return "Read", {"file_path": step["read"]}
        step = {"sh": f"cat {shlex.quote(step['read'])}"}
    if "write" in step:
        path, content = step["write"]
        for name, shape in WRITE.items():
            if name in offered:
                return name, shape(path, content)
        step = {"sh": f"printf %s {shlex.quote(content)} > {shlex.quote(path)}"}
    for name, shape in SHELL.items():
        if name in offered:
            return name, shape(step["sh"])
    return None, "no usable tool among " + ", ".join(sorted(offered))


def results_since_user(messages, is_result, is_user):
    n = 0
    for m in messages:
        if is_result(m):
            n += is_result(m)
        elif is_user(m):
            n = 0
    return n


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def parse_request(self):
        good = super().parse_request()
        if good and LOG:
            with open(LOG, "a", encoding="utf-8") as f:
                f.write(json.dumps({"path": self.path, "fields": list(self.headers.items())}) + "\n")
        return good

    def do_HEAD(self):
        self.answer({})

    def do_GET(self):
        self.answer({"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        path = self.path.split("?")[0]
        if path.endswith("/messages"):
            self.anthropic(body)
        elif path.endswith("/responses"):
            self.openai(body)
        elif path.endswith("/count_tokens"):
            self.answer({"input_tokens": 1})
        else:
            self.answer({"error": {"type": "not_found_error", "message": path}}, 404)

    def answer(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def stream(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for e in events:
            piece = f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def anthropic(self, body):
        def results(m):
            return sum(c.get("type") == "tool_result" for c in m["content"]) if m["role"] == "user" and isinstance(m["content"], list) else 0

        done = results_since_user(body.get("messages", []), results, lambda m: m["role"] == "user")
        tool, what = next_step(done, {t["name"] for t in body.get("tools", [])})
        block = {"type": "tool_use", "id": f"toolu_{done}", "name": tool, "input": what} if tool else {"type": "text", "text": what}
        message = {"id": f"msg_{done}", "type": "message", "role": "assistant", "model": body.get("model", ""), "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        stop = "tool_use" if tool else "end_turn"
        if not body.get("stream"):
            self.answer({**message, "content": [block], "stop_reason": stop})
            return
        if tool:
            opening, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(what)}
        else:
            opening, delta = {**block, "text": ""}, {"type": "text_delta", "text": what}
        self.stream([
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": opening},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ])

    def openai(self, body):
        said = body.get("input", [])
        said = said if isinstance(said, list) else []
        done = results_since_user(said, lambda m: int(str(m.get("type", "")).endswith("_call_output")), lambda m: m.get("role") == "user")
        # the tools of a server stand in a namespace
        spaces = {f"{t['name']}__{i['name']}": (t["name"], i["name"]) for t in body.get("tools", []) if t.get("type") == "namespace" for i in t["tools"]}
        offered = {t["name"] for t in body.get("tools", []) if "name" in t and t.get("type") != "namespace"} | set(spaces)
        tool, what = next_step(done, offered)
        if tool:
            item = {"type": "function_call", "id": f"fc_{done}", "call_id": f"call_{done}", "name": tool, "arguments": json.dumps(what), "status": "completed"}
            if tool in spaces:
                item["namespace"], item["name"] = spaces[tool]
        else:
            item = {"type": "message", "id": f"msg_{done}", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": what, "annotations": []}]}
        response = {"id": f"resp_{done}", "object": "response", "created_at": 0, "model": body.get("model", ""), "parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
        whole = {**response, "status": "completed", "output": [item], "usage": {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2}}
        if not body.get("stream"):
            self.answer(whole)
            return
        self.stream([
            {"type": "response.created", "sequence_number": 0, "response": {**response, "status": "in_progress", "output": [], "usage": None}},
            {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item},
            {"type": "response.output_item.done", "sequence_number": 2, "output_index": 0, "item": item},
            {"type": "response.completed", "sequence_number": 3, "response": whole},
        ])


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def finish_request(self, request, client_address):
        if LOG:  # in the connection's own thread: a slow handshake holds nobody up
            request = context.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address):
        pass


if LOG:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[4], sys.argv[5])
server = Server(("127.0.0.1", 0), Model)
with open(sys.argv[2] + ".new", "w", encoding="ascii") as port_file:
    port_file.write(str(server.server_address[1]))
os.rename(sys.argv[2] + ".new", sys.argv[2])
server.serve_forever()
