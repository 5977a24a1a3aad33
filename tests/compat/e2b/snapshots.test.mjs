// SPDX-License-Identifier: Apache-2.0
// Snapshots, sandboxes made of them, forks.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox, SandboxError, SandboxNotFoundError } from 'e2b'
import { id, keep, sandbox, sh } from './lib.mjs'

test('a snapshot: the sandbox goes on, a new one begins with its files, user and variables', async () => {
  const s = await sandbox({ envs: { FOO: 'bar' } })
  await s.commands.run('echo one > file')
  const snap = await s.createSnapshot()
  assert.match(snap.snapshotId, /:default$/)
  await s.commands.run('echo two > file')
  const n = await sandbox(snap.snapshotId)
  assert.equal(await sh(n, 'whoami; cat file; echo $FOO $E2B_SANDBOX_ID'), `user\none\nbar ${n.sandboxId}`)
  assert.equal(await sh(s, 'cat file'), 'two')
  await n.commands.run('echo three > file')
  assert.equal(await sh(s, 'cat file'), 'two')
  const mine = await s.listSnapshots().nextItems()
  assert.ok(mine.some((x) => x.snapshotId === snap.snapshotId))
  assert.ok((await Sandbox.listSnapshots().nextItems()).some((x) => x.snapshotId === snap.snapshotId))
  assert.equal(await Sandbox.deleteSnapshot(snap.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(snap.snapshotId), false)
  await assert.rejects(Sandbox.create(snap.snapshotId), SandboxError)
  assert.equal(await sh(n, 'cat file'), 'three')
})

test('a snapshot outlives its sandbox; named ones are found by name', async () => {
  const name = `snap-${id()}`
  const s = await sandbox()
  await s.commands.run('echo here > file')
  const snap = await s.createSnapshot({ name })
  assert.equal(snap.snapshotId, `skep/${name}:default`)
  assert.deepEqual(snap.names, [`skep/${name}`])
  await s.kill()
  for (const word of [snap.snapshotId, name]) assert.equal(await sh(await sandbox(word), 'cat file'), 'here')
  await Sandbox.deleteSnapshot(snap.snapshotId)
})

test('forks go their own ways', async () => {
  const s = await sandbox({ metadata: { of: 'origin' } })
  await s.commands.run('echo one > file')
  const forks = (await s.fork({ count: 3 })).map((f) => keep(f.sandbox ?? f))
  assert.equal(new Set([s, ...forks].map((x) => x.sandboxId)).size, 4)
  for (const [i, f] of forks.entries()) {
    assert.equal(await sh(f, 'cat file'), 'one')
    await f.commands.run(`echo fork ${i} > file`)
  }
  assert.deepEqual(await Promise.all(forks.map((f) => sh(f, 'cat file'))), ['fork 0', 'fork 1', 'fork 2'])
  assert.equal(await sh(s, 'cat file'), 'one')
  const random = await Promise.all(forks.map((f) => sh(f, 'cat /etc/machine-id; head -c 16 /dev/urandom | base64')))
  assert.equal(new Set(random).size, 3)
  await assert.rejects(Sandbox.fork('inexistentsandbox'), SandboxNotFoundError)
})

test('of a sandbox that does not exist', async () => {
  await assert.rejects(Sandbox.createSnapshot('inexistentsandbox'), SandboxNotFoundError)
  assert.equal(await Sandbox.deleteSnapshot('inexistentsnapshot'), false)
})
