# SPDX-License-Identifier: Apache-2.0
"""Rules for addresses: what is dialled as it is, by whom it is refused, and that nothing else opens with it."""
import pytest

from net_kit import Canary, Cell, HttpCanary, Lab, certificate, user_config

CLOSED = {"ECONNREFUSED", "ECONNRESET", "ENETUNREACH", "EHOSTUNREACH", "EPIPE"}


@pytest.fixture
def lab(home):
    """A network of our own: skep's end of it has addresses that are no loopback."""
    lab = Lab()
    lab.enter(home)
    user_config(home, "")
    yield lab
    home.stop_all()
    lab.leave()
    lab.close()


@pytest.fixture
def own(lab):
    """make() at skep's end."""
    made = []
    yield lambda make: made.append(lab.inside(lab.holders[0], make)) or made[-1]
    for c in made:
        c.close()


OWN = "11.22.33.1"


@pytest.mark.root
def test_an_address_that_a_rule_names(home, own, tmp_path):
    """Plain TCP, HTTP and TLS to it; nothing else beside it; taken back while it is open."""
    context, _ = certificate(tmp_path, "canary.test")
    http, other, echo = own(lambda: HttpCanary(OWN)), own(lambda: HttpCanary(OWN)), own(lambda: Canary(OWN))
    tls = own(lambda: Canary(OWN, tls=context, answer=b"page"))
    a, port = http.address, http.port
    cell = Cell(home, "--allow", f"{a}:{port}", "--allow", f"{a}:{tls.port}", "--allow", f"{a}:{echo.port}", "--allow", "name.test")
    assert "canary" in cell.tries(f"say(get({a!r}, {port}))")
    assert http.names[-1] == ("GET / HTTP/1.1", [f"{a}:{port}"])
    e = cell.event("net.request", name=a, port=port)
    assert (e["verdict"], e["rule"], e["address"]) == ("allow", f"{a}:{port}", a)
    assert cell.tries(f"say(tcp({a!r}, {echo.port}, b'\\1hello', more=False))") == "\1hello"
    # TLS that names a server could be for anybody with that address.
    assert cell.tries(f"say(tls({a!r}, {tls.port}))") == "page"
    assert cell.tries(f"say(tls({a!r}, {tls.port}, sni='evil.test'))") != "page"
    assert "names a server" in cell.event("denied", what="sni")["why"]
    # So could a request for another host.
    got = cell.tries(f"say([get({a!r}, {port}, name='evil.test'), get({a!r}, {port}, name='127.0.0.1')])")
    assert all(x.startswith("HTTP/1.1 400") for x in got), got
    seen = other.count
    assert cell.tries(f"say(tcp({a!r}, {other.port}, b'x'))") in CLOSED and other.count == seen
    assert cell.event("denied", what="connect", name=a, port=other.port)["why"] == "no rule allows it"
    assert set(cell.tries("say([tcp(x, 443, b'x') for x in ('8.8.8.8', '169.254.169.254', '2600::1', 'fd00:ec2::254')])")) <= CLOSED
    assert set(cell.tries(f"say([udp({a!r}, {port})])")) <= CLOSED
    p, said = cell.starts(f"""
with socket.create_connection(({a!r}, {echo.port})) as s:
    s.sendall(b"\\1"); say(s.recv(1).decode())
    try: say(s.recv(1).decode())
    except OSError as e: say(name_of(e))""")
    assert said() == "\1"
    cell.set("--remove", f"{a}:{echo.port}")
    assert said() == "ECONNRESET"
    p.wait()
    # Without any range the kernel refuses, as before there was one.
    cell.set("--remove", f"{a}:{port}", "--remove", f"{a}:{tls.port}")
    assert cell.tries(f"say(tcp({a!r}, {port}, b'x'))") == "ECONNREFUSED"
    assert cell.event("denied", what="net", address=a, port=port)
    cell.set("--allow", f"{a}:*")
    assert "canary" in cell.tries(f"say(get({a!r}, {other.port}))")


@pytest.mark.root
def test_ranges_beside_names(home, lab, own):
    """A range does not name this machine; one that denies also holds for what a name has, and for a pinned address."""
    http = own(lambda: HttpCanary(OWN))
    a, port = http.address, http.port
    resolver = lab.resolver({"own.test": [a], "mapped.test": [f"::ffff:{a}"]})
    user_config(home, f"resolver: {resolver.at}\n")
    net = a.rsplit(".", 1)[0] + ".0/24"
    cell = Cell(home, "--allow", f"{net}:*", "--allow", f"own.test:{port}", "--allow", f"mapped.test:{port}", "--allow", f"pinned.test:{port}={a}", "--allow", "0.0.0.0/0:*", "--allow", "[::/0]:*")
    try:
        seen = http.count
        assert "canary" not in cell.tries(f"say(get({a!r}, {port}))")
        assert "this machine's own" in cell.event("denied", what="address", name=a)["why"]
        assert "canary" not in cell.tries(f"say(get('own.test', {port}))") and http.count == seen
        assert "canary" in cell.tries(f"say(get('pinned.test', {port}))")
        cell.set("--allow", f"{a}:{port}")  # the one address: now it is named, and a name gets no more than that
        assert "canary" in cell.tries(f"say(get({a!r}, {port}))")
        assert "canary" in cell.tries(f"say(get('own.test', {port}))")
        assert "canary" in cell.tries(f"say(get('mapped.test', {port}))")  # the same address, in IPv6 clothes
        seen = http.count
        cell.set("--deny", f"{net}:{port}")
        got = cell.tries(f"say([get(n, {port}) for n in ({a!r}, 'own.test', 'mapped.test', 'pinned.test')])")
        assert not any("canary" in x for x in got) and http.count == seen, got
        assert "denied by a rule" in cell.event("denied", what="address", name="pinned.test")["why"]
    finally:
        resolver.close()
        user_config(home, "")


def test_what_is_said_of_addresses(home):
    """check and explain, forms of rules."""
    check = lambda *rules_and_host: home.skep("policy", "check", *(x for r in rules_and_host[:-1] for x in ("--allow", r)), rules_and_host[-1])
    assert check("9.9.9.0/24", "9.9.9.9").ok().out.startswith("allow 9.9.9.9:443")
    assert check("9.9.9.0/24:*", "9.9.9.9:22").rc == 0 and check("9.9.9.0/24", "9.9.9.9:22").rc == 5
    assert check("[2600::/16]:443", "[2600::1]:443").rc == 0 and check("2600::/16", "2600::1").rc == 0
    got = check("0.0.0.0/0:*", "10.0.0.1:80")
    assert got.rc == 5 and "private address" in got.out
    assert "no rule is for addresses" in check("a.test", "9.9.9.9").out
    assert check("10.0.0.0/8", "10.0.0.1:80").rc == 0 and check("169.254.0.0/16", "169.254.169.254:80").rc == 5
    for rule in ("10.1.2.3/8", "1.2.3.4/path", "GET 1.2.3.4", "1.2.3.4 open", "127.0.0.1", "198.18.0.1", "1.2.3.4/33", "[1.2.3.4]:80", "224.0.0.1"):
        check(rule, "a.test").fails(2)
    assert "10.0.0.0/8" in check("10.1.2.3/8", "a.test").err
    assert home.skep("policy", "check", "--net", "open", "9.9.9.9").rc == 5
    cell = Cell(home, "--allow", "9.9.9.0/24", "--deny", "9.9.9.9")
    assert home.skep("policy", "explain", cell.id, "9.9.9.8").ok().out.startswith("allow 9.9.9.8:443")
    got = home.skep("policy", "explain", cell.id, "9.9.9.9")
    assert got.ok().out.startswith("deny 9.9.9.9:443") and "--deny denies it" in got.out


@pytest.mark.root
def test_in_a_network_where_all_of_it_answers(home, lab):
    """Everything is allowed, and it is only what is everybody's; IPv4 and IPv6."""
    ports = {a: c.port for a, c in lab.canaries.items()}
    cell = Cell(home, "--allow", "0.0.0.0/0:*", "--allow", "[::/0]:*")
    literal = lambda a: f"[{a}]" if ":" in a else a
    reach = lambda: {a for (a, _), x in zip(ports.items(), cell.tries(f"say([get(a, p, name=n, wait=3) for a, p, n in {[(a, p, literal(a)) for a, p in ports.items()]!r}])")) if "canary" in x}
    assert reach() == {"11.22.33.44", "2600:1234::5"}
    e = cell.event("net.request", name="2600:1234::5")
    assert e["verdict"] == "allow" and e["rule"] == "[::/0]:*"
    cell.set("--allow", "10.0.0.0/8:*")
    assert reach() == {"11.22.33.44", "2600:1234::5", "10.9.8.7"}
    cell.set("--allow", "[fd00::/8]:*", "--allow", "169.254.169.254:*", "--deny", "2600::/16")
    assert reach() == {"11.22.33.44", "10.9.8.7", "fd12:3456::7", "169.254.169.254"}
    cell.set("--deny", "evil.test")  # by its address it could be reached: everything gives way
    assert reach() == {"10.9.8.7", "fd12:3456::7", "169.254.169.254"}
