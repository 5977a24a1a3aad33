// SPDX-License-Identifier: Apache-2.0
// Lists: filters by metadata and state, order, pages.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox } from 'e2b'
import { id, sandbox } from './lib.mjs'

async function all(opts) {
  const p = Sandbox.list(opts)
  const items = []
  while (p.hasNext) items.push(...(await p.nextItems()))
  return items
}

test('every pair of the metadata must fit, whatever it is written with', async () => {
  const mark = id()
  const odd = { mark, 'a key': 'x=y&z +%2B', 'ü': '日本 %' }
  const s = await sandbox({ metadata: odd })
  await sandbox({ metadata: { mark, 'a key': 'other' } })
  assert.equal((await all({ query: { metadata: { mark } } })).length, 2)
  const found = await all({ query: { metadata: odd } })
  assert.deepEqual(found.map((x) => x.sandboxId), [s.sandboxId])
  assert.deepEqual(found[0].metadata, odd)
  assert.equal((await all({ query: { metadata: { mark, 'a key': 'nothing' } } })).length, 0)
})

test('pages, newest first, by state', async () => {
  const mark = id()
  const made = []
  for (let i = 0; i < 5; i++) made.push(await sandbox({ metadata: { mark } }))
  await made[1].pause()
  await made[3].pause()
  const query = { metadata: { mark } }
  const p = Sandbox.list({ query, limit: 2 })
  const pages = []
  while (p.hasNext) pages.push((await p.nextItems()).map((x) => x.sandboxId))
  assert.deepEqual(pages.map((x) => x.length), [2, 2, 1])
  assert.deepEqual(pages.flat(), made.map((s) => s.sandboxId).reverse())
  await assert.rejects(p.nextItems())
  const paused = await all({ query: { ...query, state: ['paused'] }, limit: 1 })
  assert.deepEqual(paused.map((x) => [x.sandboxId, x.state]), [[made[3].sandboxId, 'paused'], [made[1].sandboxId, 'paused']])
  const running = await all({ query: { ...query, state: ['running'] }, limit: 2 })
  assert.deepEqual(running.map((x) => x.sandboxId), [made[4], made[2], made[0]].map((s) => s.sandboxId))
})
