// SPDX-License-Identifier: Apache-2.0
// Commands: in the foreground and behind, their input, their end, who listens.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { AuthenticationError, CommandExitError, InvalidArgumentError, NotFoundError, Sandbox, SandboxNotFoundError, TimeoutError } from 'e2b'
import { sandbox, sh, until } from './lib.mjs'

let s
before(async () => { s = await sandbox({ envs: { GLOBAL: 'from create' } }) })

test('output, status, streams', async () => {
  const r = await s.commands.run('echo out; echo err >&2')
  assert.deepEqual([r.exitCode, r.stdout, r.stderr], [0, 'out\n', 'err\n'])
  assert.equal((await s.commands.run('echo "!@#$%^&*()_+ \'x\'\nü"')).stdout, '!@#$%^&*()_+ \'x\'\nü\n')
  assert.equal((await s.commands.run(`printf '${'a'.repeat(8191)}\\xe2'`)).stdout, 'a'.repeat(8191) + '\ufffd')
  await assert.rejects(s.commands.run('echo some; exit 3'), (e) => e instanceof CommandExitError && e.exitCode === 3 && e.stdout === 'some\n' && e.error === 'exit status 3')
  let seen = ''
  await s.commands.run('for i in 1 2 3; do echo $i; sleep 0.05; done', { onStdout: (d) => { seen += d } })
  assert.equal(seen, '1\n2\n3\n')
  assert.equal((await s.commands.run('head -c 8000000 /dev/zero | tr "\\0" x')).stdout.length, 8000000)
})

test('environment, directory, user', async () => {
  assert.equal(await sh(s, 'echo "$GLOBAL|$MINE"', { envs: { MINE: 'a b=c' } }), 'from create|a b=c')
  assert.equal(await sh(s, 'echo "$GLOBAL"', { envs: { GLOBAL: 'mine' } }), 'mine')
  assert.equal(await sh(s, 'echo "$HOME $USER $LOGNAME $E2B_SANDBOX_ID"'), `/home/user user user ${s.sandboxId}`)
  assert.equal(await sh(s, 'cat /run/e2b/.E2B_SANDBOX; echo; cat /run/e2b/.E2B_SANDBOX_ID'), `true\n${s.sandboxId}`)
  assert.equal(await sh(s, 'pwd', { cwd: '/tmp' }), '/tmp')
  await s.files.makeDir('some/where')
  for (const cwd of ['some/where', '~/some/where', '/home/user/some/../some/where']) assert.equal(await sh(s, 'pwd', { cwd }), '/home/user/some/where')
  await assert.rejects(s.commands.run('true', { cwd: 'no/where' }), (e) => e instanceof InvalidArgumentError && /cwd '\/home\/user\/no\/where' does not exist/.test(e.message))
  await assert.rejects(s.commands.run('true', { user: 'nobody-here' }), (e) => e instanceof AuthenticationError && /invalid username: 'nobody-here'/.test(e.message))
})

test('behind: list, connect, wait, kill', async () => {
  const h = await s.commands.run('read line; echo "got $line"; sleep 60', { background: true, stdin: true })
  const listed = (await s.commands.list()).find((p) => p.pid === h.pid)
  assert.deepEqual([listed.cmd, listed.args], ['/bin/bash', ['-l', '-c', 'read line; echo "got $line"; sleep 60']])
  assert.equal(await sh(s, `kill -0 ${h.pid} && echo there`), 'there') // its number inside
  const second = await s.commands.connect(h.pid)
  await s.commands.sendStdin(h.pid, 'me\n')
  await until(() => h.stdout === 'got me\n' && second.stdout === 'got me\n')
  await second.disconnect()
  assert.equal(await h.kill(), true)
  await assert.rejects(h.wait(), (e) => e instanceof CommandExitError && e.exitCode === -1 && e.error === 'signal: killed')
  await assert.rejects(s.commands.run(`kill -0 ${h.pid}`), CommandExitError)
  assert.equal(await s.commands.kill(h.pid), false)
  assert.equal((await s.commands.list()).some((p) => p.pid === h.pid), false)
  assert.equal(await s.commands.kill(999999), false)
  await assert.rejects(s.commands.connect(999999), NotFoundError)
  await assert.rejects(s.commands.sendStdin(999999, 'x'), NotFoundError)
})

test('a listener that comes late gets the end', async () => {
  const h = await s.commands.run('exit 5', { background: true })
  await assert.rejects(h.wait(), CommandExitError)
  await assert.rejects((await s.commands.connect(h.pid)).wait(), (e) => e.exitCode === 5)
})

test('a client that leaves does not end the command; one that listens again hears only the rest', async () => {
  const h = await s.commands.run('echo early; read x; echo late; sleep 0.2; echo over > /tmp/left', { background: true, stdin: true })
  await until(() => h.stdout === 'early\n')
  await h.disconnect()
  const again = await s.commands.connect(h.pid)
  await s.commands.sendStdin(h.pid, '\n')
  assert.equal((await again.wait()).stdout, 'late\n')
  assert.equal(await sh(s, 'cat /tmp/left'), 'over')
})

test('input', async () => {
  const h = await s.commands.run('cat', { background: true, stdin: true })
  await s.commands.sendStdin(h.pid, '')
  await s.commands.sendStdin(h.pid, 'one ')
  await s.commands.sendStdin(h.pid, 'x'.repeat(700_000)) // more than fits at once
  await s.commands.closeStdin(h.pid)
  assert.equal((await h.wait()).stdout, 'one ' + 'x'.repeat(700_000))
  assert.equal((await s.commands.run('cat; echo over')).stdout, 'over\n') // none was asked for
  const deaf = await s.commands.run('sleep 60', { background: true })
  await assert.rejects(s.commands.sendStdin(deaf.pid, 'x'))
  await deaf.kill()
})

test('time', async () => {
  const started = Date.now()
  await assert.rejects(s.commands.run('sleep 61', { timeoutMs: 300 }), TimeoutError)
  assert.ok(Date.now() - started < 60_000)
  await until(async () => !(await sh(s, 'pgrep -f "[s]leep 61" || true')))
  const h = await s.commands.run('sleep 62', { background: true, timeoutMs: 300 })
  await assert.rejects(h.wait(), TimeoutError)
  await until(async () => !(await sh(s, 'pgrep -f "[s]leep 62" || true')))
})

test('many at once', async () => {
  const all = await Promise.all([...Array(24).keys()].map((i) => s.commands.run(`echo ${i}; sleep 0.1`)))
  assert.deepEqual(all.map((r) => r.stdout.trim()), [...Array(24).keys()].map(String))
})

test('what does not start is told', async () => {
  const r = await fetch(`${process.env.E2B_SANDBOX_URL}/process.Process/Start`, {
    method: 'POST',
    headers: { 'content-type': 'application/connect+json', 'e2b-sandbox-id': s.sandboxId, 'e2b-sandbox-port': '49983', 'x-access-token': s.envdAccessToken },
    body: envelope({ process: { cmd: '/no/such/program' } }),
  })
  assert.equal(r.status, 200)
  assert.equal(r.headers.get('content-type'), 'application/connect+json')
  assert.match(Buffer.from(await r.arrayBuffer()).toString('latin1'), /^\x02.{4}\{"error":\{"code":"invalid_argument"/s)
})

test('killed or paused under a command', async () => {
  const b = await sandbox()
  const h = await b.commands.run('sleep 60', { background: true })
  const end = assert.rejects(h.wait(), TimeoutError)
  await b.pause()
  await end
  assert.equal(await b.isRunning(), false)
  await assert.rejects(b.commands.run('true'), SandboxNotFoundError)
  const c = await Sandbox.connect(b.sandboxId)
  assert.deepEqual((await c.commands.list()).map((p) => p.pid), [h.pid])
  const again = await c.commands.connect(h.pid)
  const gone = assert.rejects(again.wait(), TimeoutError)
  await c.kill()
  await gone
  assert.equal(await c.isRunning(), false)
})

test('who has no token is refused', async () => {
  const call = (headers, path = '/process.Process/List') => fetch(process.env.E2B_SANDBOX_URL + path, {
    method: 'POST', headers: { 'content-type': 'application/json', 'e2b-sandbox-id': s.sandboxId, 'e2b-sandbox-port': '49983', ...headers }, body: '{}' })
  assert.equal((await call({})).status, 401)
  assert.equal((await call({ 'x-access-token': 'x'.repeat(32) })).status, 401)
  assert.equal((await call({ 'x-access-token': s.envdAccessToken })).status, 200)
  assert.equal((await call({ 'x-access-token': s.envdAccessToken, 'content-type': 'application/proto' })).status, 501)
  // of paths that are not there nothing is said without an API key
  assert.ok([401, 404].includes((await call({ 'x-access-token': s.envdAccessToken }, '/init')).status))
  const lost = await call({ 'e2b-sandbox-id': 'snobody1234567' })
  assert.equal(lost.status, 502)
  assert.deepEqual(await lost.json(), { sandboxId: 'snobody1234567', message: 'The sandbox was not found', code: 502 })
})

function envelope(message) {
  const text = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(text.length, 1)
  return Buffer.concat([head, text])
}

test('a child that holds the output holds the end, and what it says counts', async () => {
  const s = await sandbox()
  assert.equal((await s.commands.run('(sleep 0.5; echo late) & echo soon')).stdout, 'soon\nlate\n')
  assert.equal((await s.commands.run('sleep 300 >/dev/null 2>&1 & echo soon')).stdout, 'soon\n')
  const h = await s.commands.run('sleep 300 & echo $!', { background: true })
  await until(() => h.stdout)
  assert.equal((await s.commands.list()).length, 1)
  assert.equal(await h.kill(), true)
  await h.wait().catch(() => {})
  assert.deepEqual(await s.commands.list(), [])
})
