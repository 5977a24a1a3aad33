// SPDX-License-Identifier: Apache-2.0
// Run by test_images.py: the JavaScript SDK builds on images by their names.
import test from 'node:test'
import assert from 'node:assert/strict'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { BuildError, Template } from 'e2b'
import { id, sandbox, sh } from './lib.mjs'

const privately = process.env.SKEP_TEST_PRIVATE

async function built(template) {
  const name = `img-${id()}`
  await Template.build(template, name)
  return sandbox(name)
}

test('by tag and by digest', async () => {
  const a = await built(Template().fromImage('debian:13').runCmd('cat /etc/which > seen'))
  assert.equal(await sh(a, 'cat seen; id -un; echo $FROM_IMAGE'), 'two\nuser\nyes')
  const b = await built(Template().fromImage(`debian@${process.env.SKEP_TEST_DIGEST}`))
  assert.equal(await sh(b, 'cat /etc/which'), 'one')
})

test('with a login', async () => {
  const s = await built(Template().fromImage(`${privately}/ann/tool:1`, { username: 'ann', password: 's:ecret' }))
  assert.equal(await sh(s, 'cat /etc/which'), 'one')
})

test('a Dockerfile', async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'ctx-'))
  fs.writeFileSync(path.join(dir, 'f.txt'), 'copied\n')
  const s = await built(
    Template({ fileContextPath: dir }).fromDockerfile('FROM debian:12\nWORKDIR /srv/app\nCOPY f.txt f.txt\nRUN cat f.txt > g.txt\nUSER user\n')
  )
  assert.equal(await sh(s, 'cat g.txt; whoami; pwd'), 'copied\nuser\n/srv/app')
  fs.rmSync(dir, { recursive: true })
})

test('refusals are build errors that name the reason', async () => {
  const build = (image, login) => Template.build(Template().fromImage(image, login), `bad-${id()}`)
  await assert.rejects(build('nobody/has-this:1'), (e) => e instanceof BuildError && /no such image or tag/.test(e.message))
  await assert.rejects(build(`${privately}/ann/tool:1`, { username: 'ann', password: 'no' }), (e) => e instanceof BuildError && /login|access/.test(e.message))
  await assert.rejects(build('localhost:1/x'), (e) => e instanceof BuildError && /localhost:1/.test(e.message))
})
