// SPDX-License-Identifier: Apache-2.0
// The life of a sandbox: create, connect, info, timeout, pause, resume, kill, metrics.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox, SandboxNotFoundError, TimeoutError } from 'e2b'
import { id, sandbox, sh, until } from './lib.mjs'

test('create: metadata, environment, user, home, working directory', async () => {
  const s = await sandbox({ timeoutMs: 60_000, metadata: { kind: 'a b&c=d', 'naïve': 'ü' }, envs: { FOO: 'bar baz' } })
  assert.match(s.sandboxId, /^[a-z0-9]+$/)
  assert.equal(await s.isRunning(), true)
  assert.equal(await sh(s, 'whoami; pwd; echo "$HOME"'), 'user\n/home/user\n/home/user')
  assert.equal(await sh(s, 'whoami; pwd', { user: 'root' }), 'root\n/root')
  assert.equal(await sh(s, 'echo "$FOO $E2B_SANDBOX $E2B_SANDBOX_ID"'), `bar baz true ${s.sandboxId}`)
  const info = await s.getInfo()
  assert.deepEqual(info.metadata, { kind: 'a b&c=d', 'naïve': 'ü' })
  assert.equal(info.sandboxId, s.sandboxId)
  assert.equal(info.name, 'base')
  assert.equal(info.state, 'running')
  assert.deepEqual(info.lifecycle, { onTimeout: 'kill', autoResume: false })
  assert.ok(Math.abs(info.endAt - info.startedAt - 60_000) < 2000)
  assert.ok(info.cpuCount > 0 && info.memoryMB > 0)
})

test('root may change the system, and only in its own sandbox', async () => {
  const [a, b] = await Promise.all([sandbox(), sandbox()])
  assert.equal(await sh(a, 'touch /usr/bin/mine /opt/mine && chown user /opt/mine && stat -c %U /opt/mine', { user: 'root' }), 'user')
  assert.equal(await sh(b, 'ls /usr/bin/mine /opt/mine 2>/dev/null || echo none'), 'none')
})

test('connect gives the same sandbox and only ever extends its time', async () => {
  const s = await sandbox({ timeoutMs: 300_000 })
  await s.commands.run('echo here > mark')
  const end = (await s.getInfo()).endAt
  const c = await Sandbox.connect(s.sandboxId, { timeoutMs: 10_000 })
  assert.equal(await sh(c, 'cat mark'), 'here')
  assert.equal((await c.getInfo()).endAt.getTime(), end.getTime())
  await Sandbox.connect(s.sandboxId, { timeoutMs: 600_000 })
  assert.ok((await s.getInfo()).endAt - end > 200_000)
})

test('connect to one that does not exist', async () => {
  await assert.rejects(Sandbox.connect('inexistentsandbox'), SandboxNotFoundError)
})

test('the timeout can be made shorter, and ends it', async () => {
  const s = await sandbox({ timeoutMs: 60_000 })
  const running = s.commands.run('sleep 60')
  running.catch(() => {})
  await s.setTimeout(1000)
  await assert.rejects(running, TimeoutError)
  assert.equal(await s.isRunning(), false)
  assert.equal(await s.kill(), false)
  await assert.rejects(s.getInfo(), SandboxNotFoundError)
  await assert.rejects(s.setTimeout(5000), SandboxNotFoundError)
})

test('kill: true, then false; a running command ends with it', async () => {
  const s = await sandbox()
  const running = s.commands.run('sleep 60')
  running.catch(() => {})
  await until(async () => (await s.commands.list()).length)
  assert.equal(await s.kill(), true)
  await assert.rejects(running, TimeoutError)
  assert.equal(await s.kill(), false)
  assert.equal(await Sandbox.kill(s.sandboxId), false)
  assert.equal(await Sandbox.kill('inexistentsandbox'), false)
  assert.equal(await s.isRunning(), false)
  const list = await Sandbox.list({ query: { state: ['running', 'paused'] } }).nextItems()
  assert.ok(!list.some((x) => x.sandboxId === s.sandboxId))
})

test('pause keeps files and processes; connect goes on with both', async () => {
  const mark = id()
  const s = await sandbox({ timeoutMs: 60_000, metadata: { mark } })
  await s.commands.run('echo kept > file')
  const h = await s.commands.run('sleep 600', { background: true })
  h.wait().catch(() => {})
  assert.equal(await s.pause(), true)
  assert.equal(await s.pause(), false)
  assert.equal(await s.isRunning(), false)
  assert.equal((await s.getInfo()).state, 'paused')
  assert.equal((await Sandbox.list({ query: { metadata: { mark }, state: ['paused'] } }).nextItems()).length, 1)
  assert.equal((await Sandbox.list({ query: { metadata: { mark }, state: ['running'] } }).nextItems()).length, 0)
  await assert.rejects(s.commands.run('true'))
  const again = await s.connect()
  assert.equal(again.sandboxId, s.sandboxId)
  assert.equal(await s.isRunning(), true)
  assert.equal(await sh(s, 'cat file; pgrep -x sleep'), `kept\n${h.pid}`)
})

test('pause without memory keeps the files only', async () => {
  const s = await sandbox()
  await s.commands.run('echo kept > file; echo gone > /dev/shm/memory')
  await s.commands.run('sleep 600', { background: true })
  assert.equal(await s.pause({ keepMemory: false }), true)
  assert.equal((await s.getInfo()).state, 'paused')
  await s.connect()
  assert.equal(await sh(s, 'cat file; pgrep -x sleep; ls /dev/shm'), 'kept')
})

test('a paused sandbox can be killed, and one that never was can not be paused', async () => {
  const s = await sandbox()
  await s.pause()
  assert.equal(await s.kill(), true)
  await assert.rejects(Sandbox.connect(s.sandboxId), SandboxNotFoundError)
  await assert.rejects(Sandbox.pause('inexistentsandbox'), SandboxNotFoundError)
})

test('onTimeout pause: paused at its end, and connect brings it back', async () => {
  const s = await sandbox({ timeoutMs: 1000, lifecycle: { onTimeout: 'pause' } })
  await s.commands.run('echo kept > file')
  await until(async () => (await s.getInfo()).state === 'paused')
  assert.equal(await s.isRunning(), false)
  assert.deepEqual((await s.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: false })
  await assert.rejects(s.commands.run('true'))
  const c = await Sandbox.connect(s.sandboxId, { timeoutMs: 60_000 })
  assert.equal(await sh(c, 'cat file'), 'kept')
})

test('autoResume: traffic brings it back', async () => {
  const s = await sandbox({ timeoutMs: 1000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  await s.commands.run('echo kept > file')
  await until(async () => (await s.getInfo()).state === 'paused')
  assert.equal(await sh(s, 'cat file'), 'kept')
  assert.equal((await s.getInfo()).state, 'running')
})

test('metrics', async () => {
  const s = await sandbox()
  const [m] = await s.getMetrics()
  assert.ok(m.timestamp instanceof Date)
  assert.ok(m.cpuCount > 0 && m.cpuUsedPct >= 0 && m.memUsed > 0 && m.memTotal >= m.memUsed && m.diskTotal > 0)
  assert.equal(typeof m.diskUsed, 'number')
  await assert.rejects(Sandbox.getMetrics('inexistentsandbox'), SandboxNotFoundError)
})

test('many at once', async () => {
  const all = await Promise.all(Array.from({ length: 10 }, () => sandbox()))
  const said = await Promise.all(all.map((s) => sh(s, 'echo $E2B_SANDBOX_ID')))
  assert.deepEqual(said, all.map((s) => s.sandboxId))
})

test('sudo, without a password', async () => {
  const s = await sandbox()
  assert.equal(await sh(s, 'sudo -n id -un; echo a | sudo tee /etc/by-user; sudo -u user id -un; cat /etc/by-user'), 'root\na\nuser\na')
  await assert.rejects(s.commands.run('sudo sh -c "exit 4"'), (e) => e.exitCode === 4)
})
