// SPDX-License-Identifier: Apache-2.0
// What a sandbox may reach, as the SDK says it; the name its ports are asked by; its limits. The host's side of the wire is
// served by test_network.py: HTTPS at api.test and other.test (SKEP_TEST_HTTPS), both pinned by the user's configuration, and
// plain TCP at SKEP_TEST_OWN.
import assert from 'node:assert/strict'
import http from 'node:http'
import { test } from 'node:test'
import { Sandbox, ALL_TRAFFIC, Secret, Template } from 'e2b'
import { id, sandbox, sh, until } from './lib.mjs'

const port = process.env.SKEP_TEST_HTTPS
const [own, ownPort] = process.env.SKEP_TEST_OWN.split(':')
const get = (s, host, extra = '') => sh(s, `curl -skS -m 20 ${extra} https://${host}:${port}/ 2>&1 || true`)
const tcp = (s) => sh(s, `bash -c 'exec 3<>/dev/tcp/${own}/${ownPort} && printf "\\1hi" >&3 && head -c 3 <&3' 2>&1 || true`)

test('rules: headers are set, replaced, shown without values, and cleared by an update', async () => {
  const secret = 'Bearer ' + process.env.SKEP_TEST_MARK
  const s = await sandbox({ network: { rules: {
    [`api.test:${port}`]: [{ transform: { headers: { Authorization: secret, 'X-Twice': 'first' } } }, { transform: { headers: { 'x-twice': 'second' } } }],
    [`*.test:${port}`]: [{ transform: { headers: { 'X-Wide': 'wide' } } }],
  } } })
  const seen = JSON.parse(await get(s, 'api.test', '-H "Authorization: mine" -H "X-Other: own"'))
  assert.equal(seen.authorization, secret)
  assert.equal(seen['x-twice'], 'second')
  assert.equal(seen['x-other'], 'own')
  assert.equal(seen['x-wide'], undefined) // the exact name's rules are not joined with others
  assert.equal(JSON.parse(await get(s, 'other.test'))['x-wide'], 'wide')
  const info = await s.getInfo()
  assert.equal(info.network.rules[`api.test:${port}`][0].transform.headers.Authorization, '***')
  assert.ok(!JSON.stringify(info).includes(secret))
  assert.ok(!(await sh(s, 'env; cat /proc/1/environ 2>/dev/null | tr "\\0" "\\n"')).includes(secret))
  await s.updateNetwork({ rules: { [`other.test:${port}`]: [{ transform: { headers: { 'X-New': 'n' } } }] } })
  assert.equal(JSON.parse(await get(s, 'api.test', '-H "Authorization: mine"')).authorization, 'mine')
  assert.equal(JSON.parse(await get(s, 'other.test'))['x-new'], 'n')
  await s.updateNetwork({})
  assert.equal(JSON.parse(await get(s, 'other.test'))['x-new'], undefined)
  for (const rules of [{ '*': [{ transform: { headers: { A: 'b' } } }] }, { '1.2.3.4': [{ transform: { headers: { A: 'b' } } }] }, { 'a.test': [{ transform: { headers: { Host: 'b' } } }] },
    { 'a.test': [{ transform: { headers: { A: 'b\r\nC: d' } } }] }, { 'a.test': [{ transform: { headers: { A: '${e2b.identity.tokens.x}' } } }] }]) {
    await assert.rejects(Sandbox.create({ network: { rules } }), { name: 'SandboxError', message: /^400: / }, JSON.stringify(rules))
  }
})

test('rules: a secret goes to its host as it is now, and an unknown one is refused', async () => {
  const name = 'net-' + id(), mark = process.env.SKEP_TEST_MARK
  await Secret.create(name, 'one-' + mark)
  const s = await sandbox({ network: { rules: { [`api.test:${port}`]: [{ transform: { headers: { Authorization: `Bearer ${Secret.fill(name)}!` } } }] } } })
  assert.equal(JSON.parse(await get(s, 'api.test')).authorization, `Bearer one-${mark}!`)
  assert.equal(JSON.parse(await get(s, 'other.test')).authorization, undefined)
  assert.ok(!JSON.stringify(await s.getInfo()).includes(mark))
  await Secret.update(name, 'two-' + mark)
  assert.equal(JSON.parse(await get(s, 'api.test')).authorization, `Bearer two-${mark}!`)
  const other = await sandbox({})
  await other.updateNetwork({ rules: { [`api.test:${port}`]: [{ transform: { headers: { 'X-Key': Secret.fill(name) } } }] } })
  assert.equal(JSON.parse(await get(other, 'api.test'))['x-key'], 'two-' + mark)
  await Secret.destroy(name)
  assert.equal(JSON.parse(await get(s, 'api.test')).authorization, 'Bearer !')
  for (const header of [Secret.fill(name), '${e2b.other.x}', '${vault:k0123456789abcde}']) {
    await assert.rejects(Sandbox.create({ network: { rules: { 'a.test': [{ transform: { headers: { A: header } } }] } } }), { message: /^400: / })
  }
})

test('allowOut and denyOut: names, wildcards, addresses, ranges', async () => {
  const s = await sandbox({ network: { allowOut: [own], denyOut: [ALL_TRAFFIC] } })
  assert.equal(await tcp(s), '\x01hi')
  await s.updateNetwork({ allowOut: ['10.99.0.0/16', '*.example.test'], denyOut: [ALL_TRAFFIC] })
  assert.notEqual(await tcp(s), '\x01hi')
  const { network } = await s.getInfo()
  assert.deepEqual([network.allowOut, network.denyOut, network.rules], [['10.99.0.0/16', '*.example.test'], [ALL_TRAFFIC], undefined])
  await s.updateNetwork({ allowOut: [own] }) // everything, and this one by name
  assert.equal(await tcp(s), '\x01hi')
  await s.updateNetwork({ denyOut: [own + '/32'], allowOut: ['10.99.0.1'] })
  assert.notEqual(await tcp(s), '\x01hi')
  await s.updateNetwork({ denyOut: ['0.0.0.0/1', '128.0.0.0/1'], allowOut: [own] }) // allowing wins
  assert.equal(await tcp(s), '\x01hi')
  await s.updateNetwork({ allowInternetAccess: false })
  assert.notEqual(await tcp(s), '\x01hi')
  for (const network of [{ allowOut: ['10.1.2.3/8'], denyOut: [ALL_TRAFFIC] }, { denyOut: ['1.2.3'] }, { allowOut: ['a.test'] }, { egressProxy: { address: 'proxy.test:1080' } }, { httpsPorts: [3000] }]) {
    await assert.rejects(Sandbox.create({ network }), { name: 'SandboxError', message: /^400: / }, JSON.stringify(network))
  }
  const err = await Sandbox.create({ network: { egressProxy: { address: 'proxy.test:1080' } } }).catch((e) => e)
  assert.match(err.message, /egressProxy is not supported/)
})

const ask = (s, path, headers = {}) => new Promise((ok, fail) => {
  const u = new URL(process.env.E2B_API_URL)
  http.get({ host: u.hostname, port: u.port, path, headers: { Host: `8000-${s.sandboxId}.localhost:${u.port}`, ...headers } }, (r) => {
    let body = ''
    r.on('data', (x) => (body += x)).on('end', () => ok([r.statusCode, body]))
  }).on('error', fail)
})

const SERVER = `python3 -u -c "
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        b = str(self.headers['Host']).encode() + b' ' + str(self.headers['Origin']).encode()
        self.send_response(200); self.send_header('Content-Length', str(len(b))); self.end_headers(); self.wfile.write(b)
http.server.ThreadingHTTPServer(('127.0.0.1', 8000), H).serve_forever()"`

test('maskRequestHost, allowPublicTraffic, and traffic that resumes', async () => {
  const s = await sandbox({ timeoutMs: 60_000, lifecycle: { onTimeout: 'pause', autoResume: true },
    network: { maskRequestHost: 'app-${PORT}.example.test', allowPublicTraffic: false } })
  await s.commands.run(SERVER, { background: true })
  const token = { 'e2b-traffic-access-token': s.trafficAccessToken }
  await until(async () => (await ask(s, '/', token))[0] === 200)
  assert.deepEqual(await ask(s, '/', token), [200, 'app-8000.example.test None'])
  const host = `8000-${s.sandboxId}.localhost:${new URL(process.env.E2B_API_URL).port}`
  assert.deepEqual(await ask(s, '/', { ...token, Origin: `http://${host}` }), [200, 'app-8000.example.test http://app-8000.example.test'])
  assert.equal((await ask(s, '/'))[0], 403)
  assert.equal((await ask(s, '/', { 'e2b-traffic-access-token': 'wrong' }))[0], 403)
  await s.updateNetwork({ denyOut: [ALL_TRAFFIC] }) // the way out: the way in stays as it was
  const { network } = await s.getInfo()
  assert.equal(network.maskRequestHost, 'app-${PORT}.example.test')
  assert.equal(network.allowPublicTraffic, false)
  assert.equal((await ask(s, '/'))[0], 403)
  await s.pause()
  assert.equal((await ask(s, '/'))[0], 403) // who may not does not wake it either
  assert.equal((await s.getInfo()).state, 'paused')
  assert.deepEqual(await ask(s, '/', token), [200, 'app-8000.example.test None'])
  assert.equal((await s.getInfo()).state, 'running')
  await s.pause({ keepMemory: false })
  assert.equal((await ask(s, '/', token))[0], 502) // files only: it must be resumed by connect
  assert.equal((await s.getInfo()).state, 'paused')
  for (const mask of ['a b', 'x\r\ny', 'http://a.test', 'a.test/x', '${PORT', '${HOST}.test'])
    await assert.rejects(Sandbox.create({ network: { maskRequestHost: mask } }), { message: /^400: / }, mask)
})

test('keepMemory false: the end of its time keeps files', async () => {
  const s = await sandbox({ timeoutMs: 1000, lifecycle: { onTimeout: { action: 'pause', keepMemory: false } } })
  await s.commands.run('echo kept > file; sleep 300 & echo $! > pid', { background: true })
  await until(async () => (await s.getInfo()).state === 'paused')
  const c = await Sandbox.connect(s.sandboxId, { timeoutMs: 60_000 })
  assert.equal(await sh(c, 'cat file; pgrep -x sleep | wc -l'), 'kept\n0')
})

test('cpuCount and memoryMB of a template are limits of its sandboxes', async () => {
  const name = 'limited-' + id()
  await Template.build(Template().fromTemplate('base').runCmd('echo made > ~/made'), name, { cpuCount: 1, memoryMB: 256 })
  const s = await sandbox(name)
  const info = await s.getInfo()
  assert.equal(info.cpuCount, 1)
  assert.equal(info.memoryMB, 256)
  const [m] = await s.getMetrics()
  assert.equal(m.cpuCount, 1)
  assert.equal(m.memTotal, 256 << 20)
  const eat = await s.commands.run(`python3 -c "import time; x = bytearray(600 << 20); time.sleep(20); print('ate', len(x))"`).catch((e) => e)
  assert.notEqual(eat.exitCode, 0)
  assert.equal(await sh(s, 'cat ~/made'), 'made') // it lives on
  const post = (body) => fetch(process.env.E2B_API_URL + '/v2/sandboxes', { method: 'POST', body: JSON.stringify(body),
    headers: { 'X-API-Key': process.env.E2B_API_KEY, 'Content-Type': 'application/json' } })
  const { sandboxID } = await (await post({ templateID: 'base', cpuCount: 1, memoryMB: 512 })).json() // no SDK says it in a create; here it may
  const own = await Sandbox.getInfo(sandboxID)
  assert.deepEqual([own.cpuCount, own.memoryMB], [1, 512])
  await Sandbox.kill(sandboxID)
  assert.equal((await post({ templateID: 'base', memoryMB: 1 })).status, 400)
  for (const bad of [{ memoryMB: 1 }, { cpuCount: 5000 }]) await assert.rejects(Template.build(Template().fromTemplate('base'), 'x-' + id(), bad))
})
