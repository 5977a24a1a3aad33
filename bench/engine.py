# SPDX-License-Identifier: Apache-2.0
"""A Docker engine for the length of a bench, where none answers: everything of it lies in a directory of its own."""
import os
import shutil
import subprocess
import time

START_S = 30


class Engine:
    def __init__(self, env, top):
        """env: of who runs docker; gets DOCKER_HOST if an engine is started here."""
        self.process = None
        if self.answers(env) or os.getuid() or not shutil.which("dockerd", path=env["PATH"]) or not shutil.which("docker", path=env["PATH"]):
            return
        self.top = f"{top}/engine"
        os.makedirs(self.top)
        at = f"unix://{self.top}/docker.sock"
        with open(f"{self.top}/log", "wb") as log:
            self.process = subprocess.Popen(["dockerd", "--host", at, "--data-root", f"{self.top}/data", "--exec-root", f"{self.top}/run", "--pidfile", f"{self.top}/pid",
                                             "--bridge", "none", "--iptables=false", "--ip6tables=false"], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        env["DOCKER_HOST"] = at
        end = time.monotonic() + START_S
        while not self.answers(env):
            if self.process.poll() is not None or time.monotonic() > end:
                del env["DOCKER_HOST"]
                self.close()
                return
            time.sleep(0.2)

    @staticmethod
    def answers(env):
        try:
            return subprocess.run(["docker", "version"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
        except OSError:
            return False

    def close(self):
        if not self.process:
            return
        self.process.terminate()
        try:
            self.process.wait(START_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None
