# SPDX-License-Identifier: Apache-2.0
"""Somebody who watches a sandbox."""
import json
import os
import queue
import threading
import time


class Watcher:
    """skep watch --json, read along: each line with the time it came."""

    def __init__(self, home, sid, *args, **more):
        self.proc = home.popen("watch", "--json", *args, sid, **more)
        self.lines, self.seen = queue.Queue(), []
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        if "--from" not in args:
            self.until(lambda x: x["type"] == "ready")

    def read(self):
        with os.fdopen(os.dup(self.proc.stdout.fileno()), "rb") as f:
            for line in f:
                self.lines.put((time.monotonic(), json.loads(line)))

    def until(self, what, seconds=15):
        """The first line from here on for which what() is true."""
        end = time.monotonic() + seconds
        while True:
            try:
                at, line = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no such line; the last ones: {self.seen[-20:]}") from None
            self.seen.append(line)
            self.came = at
            if what(line):
                return line

    def change(self, path, **want):
        return self.until(lambda x: x["type"] == "change" and x["path"] == path and all(x.get(k) == v for k, v in want.items()))

    def exit(self):
        return self.until(lambda x: x["type"] == "exec.exit")

    def close(self):
        self.proc.kill()
        self.proc.wait()
        self.thread.join(5)
        self.proc.stdout.close()
        self.proc.stderr.close()
