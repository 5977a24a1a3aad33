// SPDX-License-Identifier: Apache-2.0
// Terminals.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { CommandExitError } from 'e2b'
import { sandbox, until } from './lib.mjs'

const bytes = (t) => new TextEncoder().encode(t)
let s
before(async () => { s = await sandbox() })

async function terminal(opts = {}) {
  const t = { text: '' }
  const onData = (d) => { t.text += new TextDecoder().decode(d) }
  t.handle = await s.pty.create({ cols: 80, rows: 24, onData, ...opts })
  t.type = (line) => s.pty.sendInput(t.handle.pid, bytes(line))
  return t
}

test('typing, size, environment, end', async () => {
  const t = await terminal({ envs: { ABC: '123' }, cwd: '/tmp' })
  await t.type('echo "$ABC $TERM $(pwd)"; stty size\n')
  await until(() => t.text.includes('123 xterm-256color /tmp') && /24 80/.test(t.text))
  await s.pty.resize(t.handle.pid, { cols: 100, rows: 30 })
  await t.type('stty size\n')
  await until(() => /30 100/.test(t.text))
  await t.type('exit 7\n')
  await assert.rejects(t.handle.wait(), (e) => e instanceof CommandExitError && e.exitCode === 7)
})

test('listening again', async () => {
  const t = await terminal()
  await t.type('echo fir""st\n')
  await until(() => t.text.includes('first'))
  await t.handle.disconnect()
  let later = ''
  const again = await s.pty.connect(t.handle.pid, { onData: (d) => { later += new TextDecoder().decode(d) } })
  assert.equal(again.pid, t.handle.pid)
  await t.type('echo sec""ond; exit\n')
  assert.equal((await again.wait()).exitCode, 0)
  assert.ok(later.includes('second') && !later.includes('first'))
})

test('kill, and what is no terminal', async () => {
  const t = await terminal()
  assert.equal(await s.pty.kill(t.handle.pid), true)
  await assert.rejects(t.handle.wait(), CommandExitError)
  assert.equal(await s.pty.kill(t.handle.pid), false)
  const c = await s.commands.run('cat', { background: true, stdin: true })
  await assert.rejects(s.pty.sendInput(c.pid, bytes('x')))
  await assert.rejects(s.pty.resize(c.pid, { cols: 10, rows: 10 }))
  const u = await terminal()
  await assert.rejects(s.commands.sendStdin(u.handle.pid, 'x'))
  await c.kill()
  await u.handle.kill()
})
