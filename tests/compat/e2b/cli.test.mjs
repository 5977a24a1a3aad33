// SPDX-License-Identifier: Apache-2.0
// E2B's own command line.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Sandbox } from 'e2b'
import { id, sandbox } from './lib.mjs'

const run = async (...args) => (await promisify(execFile)('node_modules/.bin/e2b', args, { timeout: 60_000 })).stdout

test('list, info, exec, logs, metrics, pause, resume, kill', async () => {
  const mark = id()
  const s = await sandbox({ metadata: { mark } })
  const listed = JSON.parse(await run('sandbox', 'list', '--format', 'json', '--metadata', `mark=${mark}`))
  assert.deepEqual(listed.map((x) => x.sandboxId), [s.sandboxId])
  assert.match(await run('sandbox', 'info', s.sandboxId), /running/i)
  assert.match(await run('sandbox', 'exec', s.sandboxId, 'echo', 'hello'), /hello/)
  await assert.rejects(run('sandbox', 'exec', s.sandboxId, 'exit 3'), (e) => e.code === 3)
  assert.match(await run('sandbox', 'logs', s.sandboxId), /echo/)
  await run('sandbox', 'metrics', s.sandboxId)
  await run('sandbox', 'pause', s.sandboxId)
  assert.equal((await s.getInfo()).state, 'paused')
  await run('sandbox', 'resume', s.sandboxId)
  assert.equal((await s.getInfo()).state, 'running')
  await run('sandbox', 'kill', s.sandboxId)
  assert.equal(await Sandbox.kill(s.sandboxId), false)
})

test('templates', async () => {
  const list = JSON.parse(await run('template', 'list', '--format', 'json'))
  assert.ok(list.some((t) => (t.aliases ?? t.names).includes('base')))
})
