// SPDX-License-Identifier: Apache-2.0
// Each request of routes.def once, through the npm SDK: its methods, and its own typed clients where no method makes the
// request. test_routes.py records the requests; here only a failing call is an error.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { ApiClient, ConnectionConfig, Sandbox, Secret, Template, Volume } from 'e2b'
import { id, keep, sandbox } from './lib.mjs'

const { api } = new ApiClient(new ConnectionConfig())

async function call(client, method, route, init) {
  const r = await client[method](route, init)
  assert.ok(r.response.ok, `${method} ${route}: ${r.response.status} ${JSON.stringify(r.error)}`)
  return r.data
}
const at = (name, value) => ({ params: { path: { [name]: value } } })
const atSandbox = (s) => at('sandboxID', s.sandboxId)

test('the small ones', async () => {
  await call(api, 'GET', '/health')
  await call(api, 'GET', '/env', { parseAs: 'text' })
  await call(api, 'GET', '/teams')
})

test('the life of a sandbox', async () => {
  const s = await sandbox({ timeoutMs: 120000 })
  const old = await call(api, 'POST', '/sandboxes', { body: { templateID: 'base', timeout: 120 } })
  keep({ sandboxId: old.sandboxID })
  await Sandbox.list().nextItems()
  await call(api, 'GET', '/sandboxes')
  await call(api, 'GET', '/sandboxes/metrics', { params: { query: { sandbox_ids: [s.sandboxId] } } })
  await s.getInfo()
  await s.getMetrics()
  await Sandbox.connect(s.sandboxId)
  await call(api, 'POST', '/sandboxes/{sandboxID}/connect', { ...atSandbox(s), body: { timeout: 120 } })
  await call(api, 'POST', '/v2/sandboxes/{sandboxID}/connect', { ...atSandbox(s), body: { timeout: 120 } })
  await s.setTimeout(120000)
  await call(api, 'POST', '/sandboxes/{sandboxID}/refreshes', { ...atSandbox(s), body: { duration: 120 } })
  await s.updateNetwork({ denyOut: ['203.0.113.0/24'] })
  for (const fork of await s.fork()) keep(fork.sandbox ?? fork)
  await call(api, 'GET', '/sandboxes/{sandboxID}/logs', atSandbox(s))
  await call(api, 'GET', '/v2/sandboxes/{sandboxID}/logs', atSandbox(s))
  const snapshot = await s.createSnapshot()
  await Sandbox.listSnapshots().nextItems()
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
  await s.pause()
  await call(api, 'POST', '/sandboxes/{sandboxID}/resume', { ...atSandbox(s), body: { timeout: 120 } })
  assert.equal(await s.kill(), true)
})

test('a template', async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'e2b'))
  const name = `routes-${id()}`
  fs.writeFileSync(path.join(dir, 'file'), name) // nobody has brought this before
  const t = Template({ fileContextPath: dir }).fromBaseImage().copy('file', 'file')
  const b = await Template.build(t, name)
  fs.rmSync(dir, { recursive: true })
  await Template.getBuildStatus(b)
  await call(api, 'GET', '/templates/{templateID}/builds/{buildID}/logs', { params: { path: { templateID: b.templateId, buildID: b.buildId } } })
  assert.equal(await Template.exists(name), true)
  await Template.assignTags(`${name}:default`, ['extra'])
  await Template.getTags(name)
  await Template.removeTags(name, ['extra'])
  await call(api, 'GET', '/templates')
  await call(api, 'GET', '/v2/templates')
  const here = at('templateID', b.templateId)
  await call(api, 'GET', '/templates/{templateID}', here)
  await call(api, 'PATCH', '/templates/{templateID}', { ...here, body: { public: true } })
  await call(api, 'PATCH', '/v2/templates/{templateID}', { ...here, body: { public: false } })
  await call(api, 'DELETE', '/templates/{templateID}', here)
})

test('a volume', async () => {
  const v = await Volume.create(`routes-${id()}`)
  await Volume.list()
  await Volume.getInfo(v.volumeId)
  await v.makeDir('/d')
  await v.writeFile('/d/f', 'text')
  assert.equal(await v.readFile('/d/f'), 'text')
  await v.list('/')
  await v.getInfo('/d/f')
  await v.updateMetadata('/d/f', { mode: 0o600 })
  await v.remove('/d')
  assert.equal(await Volume.destroy(v.volumeId), true)
})

test('a secret', async () => {
  const name = `routes-${id()}`
  await Secret.create(name, 'one')
  await Secret.update(name, 'two')
  await Secret.list().nextItems()
  await Secret.getInfo(name)
  assert.equal(await Secret.destroy(name), true)
})

test('processes and files', async () => {
  const s = await sandbox({ timeoutMs: 120000 })
  const envd = s.files.envdApi.api
  assert.equal(await s.isRunning(), true)
  await s.files.write([{ path: 'a', data: 'a' }, { path: 'b', data: 'b' }])
  assert.equal(await s.files.read('a'), 'a')
  await call(envd, 'POST', '/files/compose', { body: { source_paths: ['a', 'b'], destination: 'c' } })
  await call(envd, 'GET', '/envs')
  await call(envd, 'GET', '/metrics')
  const watch = await s.files.watchDir('.', () => {})
  await s.files.makeDir('d')
  await s.files.rename('c', 'd/c')
  await s.files.getInfo('d/c')
  await s.files.list('d')
  await s.files.remove('d')
  await watch.stop()
  await s.commands.run('true')
  const cat = await s.commands.run('cat', { background: true, stdin: true })
  const again = await s.commands.connect(cat.pid)
  await again.disconnect()
  await s.commands.list()
  await s.commands.sendStdin(cat.pid, 'in')
  await s.commands.closeStdin(cat.pid)
  assert.equal((await cat.wait()).stdout, 'in')
  const t = await s.pty.create({ cols: 80, rows: 24, onData: () => {} })
  await s.pty.resize(t.pid, { cols: 100, rows: 30 })
  assert.equal(await s.pty.kill(t.pid), true)
})
