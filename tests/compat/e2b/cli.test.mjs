// SPDX-License-Identifier: Apache-2.0
// E2B's own command line.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { test } from 'node:test'
import { Sandbox } from 'e2b'
import { id, sandbox } from './lib.mjs'

// Its stdin is closed: piped input would be waited for.
const run = (...args) =>
  new Promise((resolve, reject) => {
    const p = spawn('node_modules/.bin/e2b', args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let out = ''
    for (const s of [p.stdout, p.stderr]) s.on('data', (d) => (out += d))
    p.on('close', (code) => (code ? reject(Object.assign(new Error(out), { code })) : resolve(out)))
  })

test('list, exec, logs, pause, resume, kill, templates', async () => {
  const mark = id()
  const s = await sandbox({ metadata: { mark } })
  await s.commands.run('echo from the sdk')
  await Promise.all([
    run('sandbox', 'list', '--format', 'json', '--metadata', `mark=${mark}`).then((out) =>
      assert.deepEqual(JSON.parse(out).map((x) => x.sandboxId), [s.sandboxId])
    ),
    run('sandbox', 'exec', s.sandboxId, 'echo', 'hello').then((out) => assert.match(out, /hello/)),
    assert.rejects(run('sandbox', 'exec', s.sandboxId, 'exit 3'), (e) => e.code === 3),
    run('sandbox', 'logs', s.sandboxId).then((out) => assert.match(out, /from the sdk/)),
    run('template', 'list', '--format', 'json').then((out) => assert.ok(JSON.parse(out).some((t) => t.aliases.includes('base')))),
  ])
  await run('sandbox', 'pause', s.sandboxId)
  assert.equal((await s.getInfo()).state, 'paused')
  await run('sandbox', 'resume', s.sandboxId)
  assert.equal((await s.getInfo()).state, 'running')
  await run('sandbox', 'kill', s.sandboxId)
  assert.equal(await Sandbox.kill(s.sandboxId), false)
})
