// SPDX-License-Identifier: Apache-2.0
// Volumes and secrets through the npm SDK.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox, SandboxError, Secret, Volume, VolumeError } from 'e2b'
import { id, sandbox, sh } from './lib.mjs'

const missing = { name: 'VolumePathNotFoundError' }

async function volume(t) {
  const v = await Volume.create('js-' + id())
  t.after(() => Volume.destroy(v.volumeId))
  return v
}

test('life of a volume', async () => {
  const name = 'js-life-' + id()
  const v = await Volume.create(name)
  assert.ok((await Volume.list()).some((x) => x.volumeId === v.volumeId && x.name === name))
  assert.equal((await Volume.getInfo(v.volumeId)).name, name)
  await assert.rejects(Volume.create(name), VolumeError)
  assert.equal(await Volume.destroy(v.volumeId), true)
  assert.equal(await Volume.destroy(v.volumeId), false)
  await assert.rejects(Volume.getInfo(v.volumeId), { name: 'VolumeNotFoundError' })
})

test('files in every format', async (t) => {
  const v = await volume(t)
  for (const content of ['hello', '']) {
    await v.writeFile('/f', content, { force: true })
    assert.equal(await v.readFile('/f'), content)
    assert.equal(new TextDecoder().decode(await v.readFile('/f', { format: 'bytes' })), content)
    assert.equal(await (await v.readFile('/f', { format: 'blob' })).text(), content)
    assert.equal(await new Response(await v.readFile('/f', { format: 'stream' })).text(), content)
  }
  const big = new Uint8Array(3 << 20).map((_, i) => i * 7)
  await v.writeFile('/big', new Blob([big]))
  assert.deepEqual(await v.readFile('/big', { format: 'bytes' }), big)
  await assert.rejects(v.readFile('/missing'), missing)
  await assert.rejects(v.readFile('/missing', { format: 'stream' }), missing)
  await v.writeFile('/m', 'x', { uid: 1000, gid: 1000, mode: 0o600 })
  const info = await v.getInfo('/m')
  assert.deepEqual([info.type, info.path, info.uid, info.gid, info.mode], ['file', '/m', 1000, 1000, 0o600])
  assert.ok(info.mtime instanceof Date)
})

test('directories', async (t) => {
  const v = await volume(t)
  await v.makeDir('/a/b', { force: true })
  await v.writeFile('/a/b/f', '1')
  assert.deepEqual((await v.list('/a')).map((e) => [e.name, e.type]), [['b', 'directory']])
  assert.equal((await v.updateMetadata('/a/b/f', { mode: 0o700 })).mode, 0o700)
  await assert.rejects(v.updateMetadata('/nope', { mode: 0o700 }), missing)
  await assert.rejects(v.list('/nope'), missing)
  assert.equal(await v.exists('/a'), true)
  await v.remove('/a', { recursive: true })
  assert.equal(await v.exists('/a'), false)
  await assert.rejects(v.remove('/a'), missing)
})

test('a volume keeps what one sandbox wrote for the next', async (t) => {
  const v = await volume(t)
  const writer = await sandbox({ volumeMounts: { '/mnt/data': v } })
  await writer.files.write('/mnt/data/hello.txt', 'written')
  await writer.kill()
  const reader = await sandbox({ volumeMounts: { '/mnt/data': v.name } })
  assert.equal(await reader.files.read('/mnt/data/hello.txt'), 'written')
  assert.equal(await sh(reader, 'whoami; touch /mnt/data/own && echo ok'), 'user\nok')
  await assert.rejects(Volume.destroy(v.volumeId), VolumeError)
  await reader.kill()
})

test('secrets', async () => {
  const name = 'js-' + id()
  const s = await Secret.create(name, 'one')
  assert.equal((await Secret.update(name, 'two')).version, 2)
  assert.equal((await Secret.getInfo(s.secretId)).name, name)
  assert.equal(await Secret.destroy(name), true)
  assert.equal(await Secret.destroy(name), false)
  await assert.rejects(Secret.getInfo(name), { name: 'SecretNotFoundError' })
})

test('what is not served is an error of the SDK', async () => {
  await assert.rejects(Sandbox.create({ network: { egressProxy: { address: '192.0.2.1:1080' } } }), SandboxError)
  await assert.rejects(Sandbox.create({ mcp: { github: { token: 'x' } } }), SandboxError)
})
