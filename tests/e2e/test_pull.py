# SPDX-License-Identifier: Apache-2.0
"""Images by name: pulled from Debian's docker-registry, and from one that misbehaves."""
import base64
import http.client
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

from kit import IS_ROOT, items, wait_for
from registry_kit import DOCKER_LIST, INDEX, MACHINE, MANIFEST, Fake, Image, Tokens, busybox_layer, fake, index_of, packed, registry, sha, tar_of
from tcp_kit import Caller, serving, token


@pytest.fixture(scope="module")
def reg(tmp_path_factory):
    with registry(str(tmp_path_factory.mktemp("registry"))) as r:
        yield r


@pytest.fixture(scope="module")
def tiny(busybox):
    """Two layers; the second one removes a file of the first."""
    return Image([busybox_layer(busybox, {"etc/first": b"one\n"}), packed(tar_of({"etc/.wh.first": b"", "etc/second": b"two\n"}))],
                 {"Env": ["PATH=/bin", "FROM_IMAGE=yes"], "WorkingDir": "/srv", "User": "app", "Cmd": ["sh"]})


def test_pull_and_run(home, skep, reg, tiny):
    reg.push("team/tiny", tiny, "1.0")
    ref = f"{reg.host}/team/tiny:1.0"
    iid = skep("image", "pull", ref).ok().line
    row = items(skep("image", "ls", "--json").json(), "images")[0]
    assert row["id"] == iid and row["source"] == ref and row["digest"] == tiny.digest
    r = skep("run", "--image", ref, "--empty", "--", "sh", "-c", "cat /etc/second; test ! -e /etc/first").ok()
    assert r.out == "two\n"


def pulls(home):
    d = f"{home.skep_home}/pulls"
    return sorted(os.listdir(d)) if os.path.isdir(d) else []


def workers(home):
    """Pids of skep-pull for this home; a sealed process shows no more than its command line."""
    found = []
    for p in os.listdir("/proc"):
        try:
            with open(f"/proc/{p}/cmdline", "rb") as f:
                if p.isdigit() and f"{home.skep_home}/pulls/".encode() in f.read():
                    found.append(int(p))
        except OSError:
            pass
    return found


def files_below(d):
    return sorted(f for _, _, names in os.walk(d) for f in names)


def noise(n, seed):
    """Bytes that do not pack, so that a layer is as large as its file."""
    return random.Random(seed).randbytes(n)


def layered(busybox, sizes, config=None):
    return Image([busybox_layer(busybox)] + [packed(tar_of({f"blob{i}": noise(n, i)})) for i, n in enumerate(sizes)], config)


def write_config(home, text):
    os.makedirs(f"{home.user_home}/.config/skep", exist_ok=True)
    with open(f"{home.user_home}/.config/skep/config.yaml", "w", encoding="ascii") as f:
        f.write(text)


def write_docker_config(home, value):
    os.makedirs(f"{home.user_home}/.docker", exist_ok=True)
    with open(f"{home.user_home}/.docker/config.json", "w", encoding="ascii") as f:
        json.dump(value, f)


def login_of(user, password):
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


# -- names, manifests, indexes --------------------------------------------------------------------------------------

@pytest.mark.parametrize("docker", [False, True])
def test_an_index_gives_the_image_of_this_machine(home, skep, reg, busybox, docker):
    name = f"multi{docker}".lower()
    own, other = Image([busybox_layer(busybox, {"etc/who": b"own\n"})], docker=docker), Image([packed(tar_of({"etc/who": b"other\n"}))], machine="s390x", docker=docker)
    reg.push(name, own, own.digest)
    reg.push(name, other, other.digest)
    index = index_of([(other, "s390x"), (own, MACHINE)], docker)
    reg.put_manifest(name, "1", index, DOCKER_LIST if docker else INDEX)
    iid = skep("image", "pull", f"{reg.host}/{name}:1").ok().line
    assert skep("run", "--image", iid, "--empty", "--", "cat", "/etc/who").ok().out == "own\n"
    by_digest = skep("image", "pull", "--json", f"{reg.host}/{name}@{sha(index)}").json()
    assert by_digest["digest"] == sha(index)
    reg.put_manifest(name, "2", index_of([(other, "s390x")], docker), DOCKER_LIST if docker else INDEX)
    skep("image", "pull", f"{reg.host}/{name}:2").fails(3, "there is no image for linux/", "linux/s390x")
    assert pulls(home) == []


def test_a_tag_that_has_not_changed_is_not_fetched_again(home, skep, busybox):
    first, second = layered(busybox, [1000]), layered(busybox, [2000])
    with fake({("x", "1"): first}) as f:
        ref = f"{f.host}/x:1"
        iid = skep("image", "pull", ref).ok().line
        blobs = len([p for p, _ in f.seen if "/blobs/" in p])
        assert skep("image", "pull", ref, "--name", "mine").ok().line == iid
        assert len([p for p, _ in f.seen if "/blobs/" in p]) == blobs
        assert [i["name"] for i in items(skep("image", "ls", "--json").json(), "images")] == ["mine"]
        f.add("x", "1", second)
        new = skep("image", "pull", ref).ok().line
        assert new != iid
        assert skep("run", "--image", ref, "--empty", "--", "wc", "-c", "/blob0").ok().out.split()[0] == "2000"
        assert skep("run", "--image", f"{f.host}/x@{first.digest}", "--empty", "--", "wc", "-c", "/blob0").ok().out.split()[0] == "1000"
        skep("image", "rm", f"{f.host}/x@{first.digest}", ref).ok()
    assert items(skep("image", "ls", "--json").json(), "images") == []


def test_what_is_no_image_is_refused(home, skep, busybox):
    image = layered(busybox, [10])
    with fake({("x", "1"): image}) as f:
        f.manifests[("x", "old")] = (json.dumps({"schemaVersion": 1, "name": "x", "fsLayers": []}).encode(), "application/vnd.docker.distribution.manifest.v1+prettyjws")
        f.manifests[("x", "text")] = (b"{}", "text/plain")
        f.manifests[("x", "broken")] = (b"{", MANIFEST)
        f.manifests[("x", sha(b"good"))] = (b"bad", MANIFEST)
        skep("image", "pull", f"{f.host}/x:old").fails(9, "schema 1", "push it again")
        skep("image", "pull", f"{f.host}/x:text").fails(9, "no image")
        skep("image", "pull", f"{f.host}/x:broken").fails(2)
        skep("image", "pull", f"{f.host}/x@{sha(b'good')}").fails(2, "another content")
        skep("image", "pull", f"{f.host}/x:none").fails(3, "no such image or tag")
    skep("image", "pull", "https://ghcr.io/x").fails(2, "no URL")
    skep("image", "pull", "localhost:1/x").fails(8, "localhost:1")
    assert pulls(home) == []


# -- logins ----------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def private(tmp_path_factory, tiny):
    with registry(str(tmp_path_factory.mktemp("private")), login=("ann", "s:ecret")) as r:
        r.push("ann/tool", tiny)
        yield r


def test_a_login_of_docker(home, skep, private):
    ref = f"{private.host}/ann/tool"
    skep("image", "pull", ref).fails(5, "401", "needs a login", "--secret")
    write_docker_config(home, {"auths": {private.host: login_of("ann", "wrong"), "other.test": login_of("ann", "s:ecret")}})
    skep("image", "pull", ref).fails(5, "401")
    write_docker_config(home, {"auths": {private.host: {}}, "credHelpers": {private.host: "pass"}})
    skep("image", "pull", ref).fails(5, "docker-credential-pass", "does not run")
    write_docker_config(home, {"auths": {f"http://{private.host}/v1/": login_of("ann", "s:ecret")}})
    skep("image", "pull", ref).ok()
    assert pulls(home) == []


def test_a_login_by_secret(home, skep, private):
    ref = f"{private.host}/ann/tool"
    skep("secret", "set", "REGISTRY", "--host", private.host, "--as", "basic", stdin=b"ann:s:ecret\n").ok()
    skep("secret", "set", "OTHER", "--host", "localhost:1", "--as", "basic", stdin=b"ann:s:ecret\n").ok()
    skep("secret", "set", "HEADER", "--host", private.host, "--as", "header:X-Key", stdin=b"value-of-it\n").ok()
    skep("image", "pull", ref, "--secret", "OTHER").fails(5, "localhost:1", "its own host only")
    skep("image", "pull", ref, "--secret", "HEADER").fails(2, "basic", "bearer")
    skep("image", "pull", ref, "--secret", "NONE").fails(3, "no secret NONE")
    skep("image", "pull", ref, "--secret", "REGISTRY").ok()
    assert pulls(home) == []


@pytest.mark.parametrize("anonymous", [True, False])
def test_a_login_by_token(home, skep, tmp_path, tiny, anonymous):
    tokens = Tokens(str(tmp_path), login=("ann", "s:ecret"), anonymous=anonymous)
    with registry(str(tmp_path / "r"), token=tokens) as r:
        r.push("ann/tool", tiny)
        ref = f"{r.host}/ann/tool"
        if not anonymous:
            skep("image", "pull", ref).fails(5, "refuses user and password")
            write_docker_config(home, {"auths": {r.host: login_of("ann", "s:ecret")}})
        skep("image", "pull", ref).ok()
        assert tokens.asked[-1][0]["scope"] == ["repository:ann/tool:pull"] and tokens.asked[-1][0]["service"] == ["registry"]
    tokens.server.shutdown()


def test_a_login_goes_to_no_other_host(home, skep, busybox):
    image = layered(busybox, [5000])
    with fake({("x", "1"): image}) as store:
        def send_there(h, kind, what):
            if kind != "blobs":
                return False
            h.reply(307, headers={"Location": f"http://127.0.0.1:{store.server.server_port}{h.path}?sig=1"})
            return True
        with fake({("x", "1"): image}, send_there) as f:
            skep("secret", "set", "REGISTRY", "--host", f.host, "--as", "bearer", stdin=b"a-token-of-the-registry\n").ok()
            skep("image", "pull", f"{f.host}/x:1", "--secret", "REGISTRY").ok()
            assert all(h["Authorization"] == "Bearer a-token-of-the-registry" for _, h in f.seen)
            assert store.seen and not [h for _, h in store.seen if "Authorization" in h]


def test_rights_of_a_token(home, skep, private):
    write_docker_config(home, {"auths": {private.host: login_of("ann", "s:ecret")}})
    read, run, admin = (token(home, "--scope", s) for s in ("read", "run", "admin"))
    ref = f"{private.host}/ann/tool"
    with serving(home) as port:
        def pull(key, **more):
            status, _, body = Caller(port, key).raw("POST", "/v1/images/pull", {"ref": ref, **more})
            return status, json.loads(body.splitlines()[-1])
        assert pull(read)[0] == 403
        assert pull(run, secret="X")[0] == 403 and pull(run, name="mine")[0] == 403
        status, answer = pull(run)  # the logins of skepd's user are not its
        assert status == 403 and "login" in answer["error"]["message"]
        assert pull(run, username="ann", password="s:ecret")[1]["image"]["source"] == f"{ref}:latest"
        assert pull(admin)[1]["image"]["source"] == f"{ref}:latest"


def test_tls_with_an_authority_of_the_site(home, skep, tmp_path, tiny):
    cert = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{tmp_path}/key", "-out", f"{tmp_path}/cert", "-subj", "/CN=localhost",
            "-days", "2", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(cert, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{tmp_path}/cert", f"{tmp_path}/key")
    with fake({("x", "1"): tiny}, tls=context) as f:
        skep("image", "pull", f"{f.host}/x:1").fails(5, "certificate", "ca_file")
        write_config(home, f"ca_file: {tmp_path}/cert\n")
        skep("image", "pull", f"{f.host}/x:1").ok()


# -- breaking off, and going on ---------------------------------------------------------------------------------------

class Held:
    """A hook for Fake: of one blob the first bytes, then nothing until it is let go."""

    def __init__(self, digest, most):
        self.digest, self.most = digest, most
        self.here, self.go = threading.Event(), threading.Event()
        self.asked = []

    def __call__(self, h, kind, what):
        if kind != "blobs" or what != self.digest:
            return False
        self.asked.append(h.headers.get("Range"))
        if self.go.is_set():
            return False
        data = self.data
        h.send_response(200)
        h.send_header("Content-Length", str(len(data)))
        h.end_headers()
        h.wfile.write(data[:self.most])
        h.wfile.flush()
        self.here.set()
        self.go.wait(120)
        h.close_connection = True
        return True


def part_of(home, digest):
    """Bytes that are there of a blob that is not whole."""
    found = [f"{d}/{f}" for d, _, names in os.walk(f"{home.skep_home}/pulls") for f in names if f == digest[7:] + ".part"]
    return os.path.getsize(found[0]) if found else 0


def test_a_connection_that_breaks_is_taken_up(home, skep, busybox):
    image = layered(busybox, [300000])
    last, tries = sha(image.layers[-1]), []

    def break_off(h, kind, what):
        if kind != "blobs" or what != last or len(tries) >= 2:
            return False
        tries.append(h.headers.get("Range"))
        Fake.blob(h, f.blobs[what], most=100000)
        return True
    with fake({("x", "1"): image}, break_off) as f:
        skep("image", "pull", f"{f.host}/x:1").ok()
        ranges = [h.get("Range") for p, h in f.seen if p.endswith(last)]
    assert ranges == [None, "bytes=100000-", "bytes=200000-"]


@pytest.mark.parametrize("how", ["client", "skepd"])
def test_a_pull_that_is_killed_goes_on_where_it_was(home, skep, busybox, how):
    image = layered(busybox, [300000])
    held = Held(sha(image.layers[-1]), 120000)
    held.data = image.layers[-1]
    with fake({("x", "1"): image}, held) as f:
        p = home.popen("image", "pull", f"{f.host}/x:1")
        assert held.here.wait(60)
        wait_for(lambda: part_of(home, held.digest) == 120000, 60, why="the first bytes")
        assert workers(home)
        if how == "client":
            p.send_signal(signal.SIGINT)
        else:
            home.kill_skepd()
        p.communicate(timeout=60)
        assert p.returncode
        wait_for(lambda: not workers(home), 60, why="skep-pull to end with its client or with skepd")
        assert part_of(home, held.digest) == 120000
        held.go.set()
        skep("image", "pull", f"{f.host}/x:1").ok()
        assert held.asked[-1] == "bytes=120000-"
        whole = [p for p, _ in f.seen if p.endswith(sha(image.layers[0]))]
        assert len(whole) == 1  # it was there already
    assert pulls(home) == []


def test_a_part_that_is_wrong_is_fetched_anew(home, skep, busybox):
    image = layered(busybox, [300000])
    held = Held(sha(image.layers[-1]), 120000)
    held.data = noise(300000, 99)
    with fake({("x", "1"): image}, held) as f:
        p = home.popen("image", "pull", f"{f.host}/x:1")
        assert held.here.wait(60)
        wait_for(lambda: part_of(home, held.digest) == 120000, 60, why="the first bytes")
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=60)
        wait_for(lambda: not workers(home), 60, why="skep-pull to end")
        held.go.set()
        skep("image", "pull", f"{f.host}/x:1").ok()
        assert held.asked[-2:] == ["bytes=120000-", None]


class Asked:
    """A pull asked for by hand: skepd has it when other requests that came later are answered."""

    def __init__(self, home, ref):
        run = os.open(f"{home.skep_home}/run", os.O_PATH | os.O_DIRECTORY)
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(60)
        self.s.connect(f"/proc/self/fd/{run}/skepd.sock")
        os.close(run)
        body = json.dumps({"ref": ref}).encode()
        self.s.sendall(b"POST /v1/images/pull HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        for _ in range(3):
            home.api("GET", "/v1/version")

    def answer(self):
        r = http.client.HTTPResponse(self.s)
        r.begin()
        return json.loads(r.read().splitlines()[-1])

    def leave(self, home):
        self.s.close()
        for _ in range(3):
            home.api("GET", "/v1/version")


def test_the_second_pull_joins_the_first(home, skep, busybox):
    image = layered(busybox, [200000])
    held = Held(sha(image.layers[-1]), 1000)
    held.data = image.layers[-1]
    skep("image", "ls").ok()
    with fake({("x", "1"): image}, held) as f:
        first = Asked(home, f"{f.host}/x:1")
        assert held.here.wait(60)
        second, third = Asked(home, f"{f.host}/x:1"), Asked(home, f"{f.host}/x:1")
        assert home.api("POST", "/v1/images/pull", {"ref": f"{f.host}/x:1", "name": "other"})[0] == 409
        first.leave(home)  # the others still wait for it
        assert len(workers(home)) == 1
        held.go.set()
        # the connection breaks, and the pull takes it up
        images = {second.answer()["image"]["id"], third.answer()["image"]["id"]}
        assert images == {i["id"] for i in items(skep("image", "ls", "--json").json(), "images")} and len(images) == 1
        assert len([p for p, _ in f.seen if p.endswith("/manifests/1")]) == 1


# -- wrong content ----------------------------------------------------------------------------------------------------

def test_wrong_content_leaves_nothing(home, skep, busybox):
    image = layered(busybox, [200000, 300000, 400000])
    bad = sha(image.layers[2])
    for how in ("other", "longer", "shorter", "config"):
        with fake({("x", "1"): image}) as f:
            good = f.blobs[bad]
            f.blobs[bad] = {"other": noise(len(good), 5), "longer": good + b"x", "shorter": good[:-1], "config": good}[how]
            if how == "config":
                f.blobs[sha(image.config)] = image.config + b" "
            skep("image", "pull", f"{f.host}/x:1").fails(2, "another content" if how in ("other", "config") else "manifest says")
            assert pulls(home) == [] and files_below(f"{home.skep_home}/pulls") == []
            f.blobs.update(image.blobs())
            skep("image", "pull", f"{f.host}/x:1").ok()
            skep("image", "rm", f"{f.host}/x:1").ok()


def test_failing_pulls_and_retries_beside_each_other(home, skep, busybox):
    """Each failure removes a directory that the next pull of the same reference makes again."""
    rounds = int(os.environ.get("SKEP_TEST_ROUNDS") or 3)
    image = layered(busybox, [50000] * 6)
    bad = sha(image.layers[3])
    skep("image", "ls").ok()
    with fake({("x", "1"): image, ("y", "1"): image}) as f:
        for _ in range(rounds):
            f.blobs[bad] = noise(len(image.layers[3]), 7)
            answers = []

            def worker(i):
                for _ in range(5):
                    status, _, body = home.api_raw("POST", "/v1/images/pull", {"ref": f"{f.host}/{'xy'[i % 2]}:1"}, timeout=120)
                    answers.append(json.loads(body.splitlines()[-1]).get("error", {"message": "taken"})["message"])
            threads = [threading.Thread(target=worker, args=(i,)) for i in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join(300)
            assert len(answers) == 40 and not [a for a in answers if "another content" not in a], [a for a in answers if "another content" not in a][:3]
            assert files_below(f"{home.skep_home}/pulls") == []
            f.blobs[bad] = image.layers[3]
            skep("image", "pull", f"{f.host}/x:1").ok()
            skep("image", "rm", f"{f.host}/x:1").ok()
    assert pulls(home) == []


# -- the site, the disk, the process ----------------------------------------------------------------------------------

def test_a_mirror_takes_the_place_of_every_registry(home, skep, reg, tiny):
    reg.push("library/debian", tiny, "12")
    reg.push("all/a/b", tiny, "1")
    write_config(home, f"image_mirrors: ['docker.io=http://{reg.host}', '*=http://{reg.host}/all']\n")
    skep("image", "pull", "debian:12").ok()
    skep("image", "pull", "ghcr.io/a/b:1").ok()
    assert {i["source"] for i in items(skep("image", "ls", "--json").json(), "images")} == {"docker.io/library/debian:12", "ghcr.io/a/b:1"}
    assert skep("run", "--image", "debian:12", "--empty", "--", "cat", "/etc/second").ok().out == "two\n"
    write_config(home, "image_mirrors: ['docker.io']\n")
    skep("image", "pull", "debian:12").fails(2, "HOST=URL")
    write_config(home, "")


def test_run_pulls_when_it_is_told_to(home, skep, busybox):
    image = layered(busybox, [100])
    with fake({("x", "1"): image}) as f:
        ref = f"{f.host}/x:1"
        skep("run", "--image", ref, "--empty", "--", "true").fails(125, "no image", "skep image pull")
        assert not f.seen
        assert skep("run", "--image", ref, "--pull", "--empty", "--", "wc", "-c", "/blob0").ok().out.split()[0] == "100"
        asked = len(f.seen)
        sid = home.new("--image", ref, "--pull", "--empty")
        assert len(f.seen) == asked and home.show(sid)["image"] == skep("image", "ls", "-q").ok().line
    skep("run", "--pull", "--empty", "--", "true").fails(2, "--image")


def test_progress_on_a_terminal(home, skep, terminal, reg, tiny):
    reg.push("shown", tiny)
    t = terminal("image", "pull", f"{reg.host}/shown")
    t.expect("layer ")
    t.expect("i")
    assert t.wait() == 0


def test_the_budget_of_the_disk_counts_pulls(home, skep, busybox):
    image = layered(busybox, [3 << 20, 3 << 20])
    with fake({("x", "1"): image}) as f:
        write_config(home, "disk_budget: 4m\n")
        skep("image", "pull", f"{f.host}/x:1").fails(6, "disk budget")
        assert not [p for p, _ in f.seen if p.endswith(sha(image.layers[1]))]
        write_config(home, "disk_budget: 1g\n")
        skep("image", "pull", f"{f.host}/x:1").ok()


def test_gc_takes_what_nobody_took_up(home, skep, busybox):
    image = layered(busybox, [300000])
    held = Held(sha(image.layers[-1]), 120000)
    held.data = image.layers[-1]
    with fake({("x", "1"): image}, held) as f:
        p = home.popen("image", "pull", f"{f.host}/x:1")
        assert held.here.wait(60)
        wait_for(lambda: part_of(home, held.digest) == 120000, 60, why="the first bytes")
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=60)
        wait_for(lambda: not workers(home), 60, why="skep-pull to end")
        held.go.set()
    (key,) = pulls(home)
    assert f"pulls/{key}" not in skep("gc").ok().out
    two_days = time.time() - 2 * 86400
    os.utime(f"{home.skep_home}/pulls/{key}", (two_days, two_days))
    assert f"pulls/{key}" in skep("gc", "--dry-run").ok().out and pulls(home) == [key]
    skep("gc").ok()
    assert pulls(home) == []


def test_the_process_is_sealed(home, skep, busybox):
    image = layered(busybox, [300000])
    held = Held(sha(image.layers[-1]), 1000)
    held.data = image.layers[-1]
    with fake({("x", "1"): image}, held) as f:
        p = home.popen("image", "pull", f"{f.host}/x:1")
        assert held.here.wait(60)
        (pid,) = workers(home)
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as s:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in s if ":\t" in line)
        assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0 and int(status["CapPrm"], 16) == 0
        assert status["Uid"].split() == ["65534" if IS_ROOT else str(os.getuid())] * 4
        held.go.set()
        p.communicate(timeout=60)
