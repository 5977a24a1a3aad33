// SPDX-License-Identifier: Apache-2.0
// Refusals are the SDK's own exceptions, and what is not served says so.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AuthenticationError, Sandbox, SandboxError, Secret, Volume, VolumeError } from 'e2b'
import { sandbox, sh } from './lib.mjs'

const api = process.env.E2B_API_URL
const key = { 'X-API-KEY': process.env.E2B_API_KEY, 'content-type': 'application/json' }
const post = (path, body, method = 'POST') => fetch(api + path, { method, headers: key, body: body === undefined ? undefined : JSON.stringify(body) })

test('create', async () => {
  await assert.rejects(Sandbox.create('nobody-has-this'), (e) => e instanceof SandboxError && /404.*not found/.test(e.message))
  await assert.rejects(Sandbox.create('base:no-such-tag'), SandboxError)
  await assert.rejects(Sandbox.create({ timeoutMs: 0 }), SandboxError)
  for (const body of [{}, { templateID: '' }, { templateID: '../../etc' }, { templateID: 'base', timeout: -1 }, { templateID: 'base', timeout: 'soon' },
    { templateID: 'base', metadata: [] }, { templateID: 'base', envVars: { a: 1 } }, { templateID: 'base', autoPauseMemory: false },
    { templateID: 'base', network: { allowOut: ['example.com'] } }, { templateID: 'base', network: { egressProxy: { address: 'x:1' } } }]) {
    const r = await post('/v2/sandboxes', body)
    assert.equal(r.status, 400, JSON.stringify(body))
    assert.equal((await r.json()).code, 400)
  }
  assert.equal((await post('/v2/sandboxes', { templateID: 'base', volumeMounts: [{ name: 'nobody-has-this', path: '/a' }] })).status, 404)
  for (const volumeMounts of [[{ name: 'a', path: 'a' }], [{ path: '/a' }], 'a', [{ name: 'a', path: '/a:/b' }]])
    assert.equal((await post('/v2/sandboxes', { templateID: 'base', volumeMounts })).status, 400)
  assert.equal((await post('/v2/sandboxes', { templateID: 'base', mcp: { a: { b: 1 } } })).status, 501)
})

test('without a key that is known', async () => {
  for (const apiKey of ['e2b_' + '0'.repeat(64), 'e2b_00', 'x']) {
    await assert.rejects(Sandbox.create({ apiKey }), AuthenticationError)
    await assert.rejects(Sandbox.list({ apiKey }).nextItems(), AuthenticationError)
  }
  const r = await fetch(api + '/sandboxes')
  assert.equal(r.status, 401)
  assert.equal((await r.json()).code, 401)
})

test('both forms of create and connect; no token without `secure`', async () => {
  const r = await post('/sandboxes', { templateID: 'base', timeout: 60 })
  assert.equal(r.status, 201)
  const open = await r.json()
  assert.equal(open.envdAccessToken, undefined)
  assert.equal((await post(`/sandboxes/${open.sandboxID}/connect`, { timeout: 60 })).status, 200)
  assert.equal((await post(`/sandboxes/${open.sandboxID}/connect`, {})).status, 400)
  assert.equal((await post(`/v2/sandboxes/${open.sandboxID}-6532622b/connect`)).status, 200)
  assert.equal((await post(`/sandboxes/${open.sandboxID}/refreshes`, { duration: 100 })).status, 204)
  assert.equal((await post(`/sandboxes/${open.sandboxID}/resume`, {})).status, 409)
  assert.equal((await post(`/sandboxes/${open.sandboxID}/pause`, {})).status, 204)
  assert.equal((await post(`/sandboxes/${open.sandboxID}/timeout`, { timeout: 5 })).status, 404)
  assert.equal((await post(`/sandboxes/${open.sandboxID}/fork`, {})).status, 409)
  assert.equal((await post(`/sandboxes/${open.sandboxID}/resume`, { timeout: 60 })).status, 201)
  assert.equal((await post(`/sandboxes/${open.sandboxID}`, undefined, 'DELETE')).status, 204)
  const secure = await (await post('/sandboxes', { templateID: 'base', timeout: 60, secure: true })).json()
  assert.match(secure.envdAccessToken, /^[0-9a-f]{32}$/)
  const detail = await (await fetch(`${api}/sandboxes/${secure.sandboxID}`, { headers: key })).json()
  assert.equal(detail.envdAccessToken, secure.envdAccessToken)
  const again = await (await post(`/v2/sandboxes/${secure.sandboxID}/connect`, {})).json()
  assert.equal(again.envdAccessToken, secure.envdAccessToken)
  const listed = await (await fetch(`${api}/v2/sandboxes`, { headers: key })).json()
  assert.ok(listed.every((x) => x.envdAccessToken === undefined))
  await Sandbox.kill(secure.sandboxID)
})

test('lists refuse what they do not understand', async () => {
  for (const q of ['limit=0', 'limit=101', 'state=dead', 'order=up', 'nextToken=x', 'startedAfter=soon', 'template=base:v1', 'metadata=%25'])
    assert.equal((await fetch(`${api}/v2/sandboxes?${q}`, { headers: key })).status, 400, q)
  assert.deepEqual(await (await fetch(`${api}/v2/sandboxes?template=nobody-has-this`, { headers: key })).json(), [])
})

test('names of volumes and secrets that can not be', async () => {
  for (const name of ['', 'a/b', '-a', 'x'.repeat(65)]) await assert.rejects(Volume.create(name), VolumeError)
  for (const name of ['', 'a{b', 'a}b', 'a\nb', 'x'.repeat(129)]) await assert.rejects(Secret.create(name, 'v'), { name: 'SecretError' })
})

test('the network: closed, opened for a name, changed while it runs', async () => {
  const s = await sandbox({ allowInternetAccess: false })
  const look = (name) => sh(s, `getent hosts ${name} >/dev/null && echo yes || echo no`)
  assert.equal(await look('example.com'), 'no')
  assert.equal((await s.getInfo()).allowInternetAccess, false)
  await s.updateNetwork({ denyOut: ['0.0.0.0/0'], allowOut: ['example.com', '*.example.org'] })
  assert.deepEqual((await s.getInfo()).network.allowOut, ['example.com', '*.example.org'])
  assert.equal(await look('example.com'), 'yes')
  assert.equal(await look('a.example.org'), 'yes')
  assert.equal(await look('example.net'), 'no')
  await s.updateNetwork({})
  assert.equal(await look('example.net'), 'yes')
  await s.updateNetwork({ denyOut: ['example.net'] })
  assert.equal(await look('example.net'), 'no')
  await s.updateNetwork({ denyOut: ['8.8.8.8'] })
  assert.equal(await look('example.net'), 'yes')
  await assert.rejects(s.updateNetwork({ denyOut: ['8.8.8'] }), SandboxError)
})
