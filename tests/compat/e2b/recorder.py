# SPDX-License-Identifier: Apache-2.0
"""A proxy between a client and skepd that writes down each request and the status of its answer. Bytes pass unchanged, as
they come; only the framing of HTTP/1.1 is read: heads, Content-Length and chunks. A side that breaks off breaks the other."""
import asyncio
import threading

HEAD_MAX = 1 << 20


class Recorder:
    """with Recorder(PORT) as r: clients go to r.port. r.seen: [(method, target, fields, status)], fields in lower case."""

    def __init__(self, upstream):
        self.upstream, self.port, self.seen = upstream, None, []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)

    def __enter__(self):
        self.thread.start()
        self.server = asyncio.run_coroutine_threadsafe(self.begin(), self.loop).result(30)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self.end(), self.loop).result(30)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(30)
        self.loop.close()

    async def begin(self):
        return await asyncio.start_server(self.connection, "127.0.0.1", 0, limit=HEAD_MAX)

    async def end(self):
        self.server.close()
        tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for t in tasks:
            t.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def connection(self, client, to_client):
        to_server, asked, ways = None, asyncio.Queue(), []
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", self.upstream, limit=HEAD_MAX)
            ways = [asyncio.ensure_future(self.requests(client, to_server, asked)), asyncio.ensure_future(self.answers(server, to_client, asked))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass
        finally:
            for w in ways:
                w.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for w in filter(None, (to_client, to_server)):
                w.transport.abort() if any(x.done() and not x.cancelled() and x.exception() for x in ways) else w.close()

    async def requests(self, client, to_server, asked):
        while True:
            line, fields = await head_pass(client, to_server)
            if not line:
                return
            method, target = line.split(" ")[:2]
            asked.put_nowait((method, target, fields))
            await body_pass(client, to_server, fields)

    async def answers(self, server, to_client, asked):
        while True:
            line, fields = await head_pass(server, to_client)
            if not line:
                return
            status = int(line.split(" ")[1])
            if 100 <= status < 200:
                continue
            method, target, sent = await asked.get()
            self.seen.append((method, target, sent, status))
            if method != "HEAD" and status not in (204, 304):
                await body_pass(server, to_client, fields, until_end=True)


async def head_pass(source, sink):
    """Passes a head on: its first line, "" at the end of the connection, and its fields."""
    try:
        head = await source.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as e:
        if e.partial:
            raise
        return "", {}
    sink.write(head)
    await sink.drain()
    line, *rest = head.decode("latin-1").split("\r\n")
    return line, {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in rest if x)}


async def bytes_pass(source, sink, n):
    while n:
        piece = await source.read(min(n, 65536))
        if not piece:
            raise ConnectionError("the body broke off")
        n -= len(piece)
        sink.write(piece)
        await sink.drain()


async def body_pass(source, sink, fields, until_end=False):
    if "chunked" in fields.get("transfer-encoding", ""):
        size = None
        while size != 0:
            line = await source.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            sink.write(line)
            await bytes_pass(source, sink, size + 2) # with the line's end; the last chunk has no trailers
    elif "content-length" in fields:
        await bytes_pass(source, sink, int(fields["content-length"]))
    elif until_end:
        while piece := await source.read(65536):
            sink.write(piece)
            await sink.drain()
