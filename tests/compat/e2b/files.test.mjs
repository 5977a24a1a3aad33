// SPDX-License-Identifier: Apache-2.0
// Contents: forms and bodies, small and large, ranges, metadata, signed addresses.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { before, test } from 'node:test'
import { AuthenticationError, FileNotFoundError, InvalidArgumentError } from 'e2b'
import { sandbox, sh } from './lib.mjs'

const url = process.env.E2B_SANDBOX_URL
let s, head
before(async () => {
  s = await sandbox()
  head = { 'e2b-sandbox-id': s.sandboxId, 'e2b-sandbox-port': '49983', 'x-access-token': s.envdAccessToken }
})

test('write and read', async () => {
  const w = await s.files.write('a/b/c.txt', 'hello')
  assert.deepEqual([w.name, w.path, w.type, w.metadata], ['c.txt', '/home/user/a/b/c.txt', 'file', undefined])
  assert.equal(await s.files.read('a/b/c.txt'), 'hello')
  await s.files.write('a/b/c.txt', 'x')
  assert.equal(await s.files.read('~/a/b/c.txt'), 'x')
  assert.equal(await sh(s, 'stat -c "%U %a" a a/b a/b/c.txt'), 'user 755\nuser 755\nuser 644')
  await s.files.write('empty', '')
  assert.equal(await s.files.read('empty'), '')
  assert.equal((await s.files.read('empty', { format: 'bytes' })).length, 0)
  await s.files.write('r.txt', 'of root', { user: 'root' })
  assert.equal(await sh(s, 'stat -c "%U %n" /root/r.txt', { user: 'root' }), 'root /root/r.txt')
  assert.match(await s.files.read('/proc/version'), /^Linux/)
  await sh(s, 'ln -s a/b/c.txt through')
  await s.files.write('through', 'a link stays one')
  assert.equal(await sh(s, 'cat a/b/c.txt; readlink through'), 'a link stays onea/b/c.txt')
})

test('refusals', async () => {
  await assert.rejects(s.files.read('none'), FileNotFoundError)
  await assert.rejects(s.files.read('a'), InvalidArgumentError)
  await assert.rejects(s.files.write('a', 'x'), InvalidArgumentError)
  await assert.rejects(s.files.write('x', 'x', { user: 'nobody-here' }), AuthenticationError)
  const post = async (path, type, body, more) => (await fetch(url + path, { method: 'POST', headers: { ...head, 'content-type': type, ...more }, body })).status
  assert.equal(await post('/files?path=x', 'text/plain', 'x'), 400)
  assert.equal(await post('/files', 'application/octet-stream', 'x'), 400)
  assert.equal(await post('/files?path=x', 'multipart/form-data', 'x'), 400)
  assert.equal(await post('/files?path=x', 'multipart/form-data; boundary=b', 'no boundary'), 400)
  assert.equal(await post('/files?path=x', 'multipart/form-data; boundary=b', '--b\r\nContent-Disposition: form-data; name=file\r\n\r\nhalf'), 400)
  assert.equal(await post('/files?path=x', 'application/octet-stream', 'not gzip', { 'content-encoding': 'gzip' }), 400)
  assert.equal(await post('/files?path=x', 'application/octet-stream', 'x', { 'content-encoding': 'br' }), 400)
  assert.equal(await post('/files?path=x', 'application/octet-stream', 'x', { 'x-metadata-k': 'v'.repeat(4097) }), 400)
  const twice = new FormData()
  for (const t of ['1', '2']) twice.append('file', new Blob([t]), 'same.txt')
  assert.equal((await fetch(`${url}/files`, { method: 'POST', headers: head, body: twice })).status, 400)
  assert.equal(await s.files.read('same.txt'), '1')
  assert.equal((await fetch(`${url}/files?path=a/b/c.txt`, { headers: { ...head, 'accept-encoding': 'identity;q=0' } })).status, 406)
})

test('several files, names of every kind, bytes of every kind', async () => {
  const bytes = Uint8Array.from({ length: 70_000 }, (_, i) => (i * 7) % 256)
  const files = [{ path: '/srv/é "q" ü.bin', data: bytes.buffer }, { path: 'n/one', data: '\r\n--boundary\r\n\r\n' }, { path: 'n/two', data: new Blob(['blob']) }]
  const infos = await s.files.write(files)
  assert.deepEqual(infos.map((i) => i.path), ['/srv/é "q" ü.bin', '/home/user/n/one', '/home/user/n/two'])
  assert.deepEqual(Buffer.from(await s.files.read(files[0].path, { format: 'bytes' })), Buffer.from(bytes))
  assert.equal(await s.files.read('n/one'), '\r\n--boundary\r\n\r\n')
  assert.equal(await (await s.files.read('n/two', { format: 'blob' })).text(), 'blob')
  const ten = await s.files.write([...Array(10).keys()].map((i) => ({ path: `n/${i}.txt`, data: `file ${i}` })))
  assert.equal(ten.length, 10)
  assert.equal(await s.files.read('n/7.txt'), 'file 7')
})

test('as one body, compressed, as a stream', async () => {
  await s.files.write('o.txt', 'octets', { useOctetStream: true })
  assert.equal(await s.files.read('o.txt'), 'octets')
  await s.files.write([1, 2, 3].map((i) => ({ path: `g${i}`, data: `zip ${i} `.repeat(100_000) })), { gzip: true })
  assert.equal(await s.files.read('g2', { gzip: true }), 'zip 2 '.repeat(100_000))
  const stream = new ReadableStream({ async start(c) { for (const t of ['a', 'b', 'c']) { c.enqueue(new TextEncoder().encode(t)); await new Promise((r) => setTimeout(r, 20)) } c.close() } })
  await s.files.write('s.txt', stream)
  assert.equal(await s.files.read('s.txt'), 'abc')
})

test('large, both ways, and only as much as is asked for', async () => {
  const big = Buffer.alloc(40 << 20)
  for (let i = 0; i < big.length; i += 4096) big.writeUInt32LE(i, i)
  const sum = (b) => createHash('sha256').update(b).digest('hex')
  await s.files.write('big', big.buffer)
  assert.equal((await sh(s, 'sha256sum big')).slice(0, 64), sum(big))
  const h = createHash('sha256')
  for await (const part of await s.files.read('big', { format: 'stream' })) h.update(part)
  assert.equal(h.digest('hex'), sum(big))
  await s.files.write('range', 'Hello, world!')
  const get = async (range) => { const r = await fetch(`${url}/files?path=range`, { headers: { ...head, range } }); return [r.status, await r.text(), r.headers.get('content-range')] }
  assert.deepEqual(await get('bytes=7-11'), [206, 'world', 'bytes 7-11/13'])
  assert.deepEqual(await get('bytes=7-'), [206, 'world!', 'bytes 7-12/13'])
  assert.deepEqual(await get('bytes=-6'), [206, 'world!', 'bytes 7-12/13'])
  assert.deepEqual(await get('bytes=0-999'), [206, 'Hello, world!', 'bytes 0-12/13'])
  assert.deepEqual((await get('bytes=13-'))[0], 416)
  assert.deepEqual((await get('bytes=5-2'))[0], 200)
})

test('a client that leaves in the middle', async () => {
  const gone = new AbortController()
  let n = 0
  const body = new ReadableStream({ async pull(c) { c.enqueue(new Uint8Array(65536)); await new Promise((r) => setTimeout(r, 5)); if (++n === 20) gone.abort(); if (n === 30) c.close() } })
  await assert.rejects(fetch(`${url}/files?path=half`, { method: 'POST', duplex: 'half', signal: gone.signal, headers: { ...head, 'content-type': 'application/octet-stream' }, body }))
  const down = new AbortController()
  const r = await fetch(`${url}/files?path=big`, { headers: head, signal: down.signal })
  await r.body.getReader().read()
  down.abort()
  assert.equal(await s.files.read('range'), 'Hello, world!')
})

test('metadata', async () => {
  const w = await s.files.write('m.txt', 'x', { metadata: { Author: 'me', purpose: 'a b' } })
  assert.deepEqual(w.metadata, { author: 'me', purpose: 'a b' })
  assert.deepEqual((await s.files.getInfo('m.txt')).metadata, w.metadata)
  assert.deepEqual((await s.files.rename('m.txt', 'm2.txt')).metadata, w.metadata)
  assert.deepEqual((await s.files.list('.')).find((e) => e.name === 'm2.txt').metadata, w.metadata)
  assert.equal((await s.files.write('m2.txt', 'y')).metadata, undefined)
  assert.equal((await s.files.getInfo('m2.txt')).metadata, undefined)
  await sh(s, `python3 -c "import os; os.setxattr('m2.txt', 'user.e2b.k', b'v')"`)
  assert.deepEqual((await s.files.getInfo('m2.txt')).metadata, { k: 'v' })
})

test('signed addresses, which name no sandbox', async () => {
  await s.files.write('signed.txt', 'for you')
  const get = async (u) => { const r = await fetch(u); return [r.status, await r.text()] }
  assert.deepEqual(await get(await s.downloadUrl('signed.txt')), [200, 'for you'])
  assert.deepEqual(await get(await s.downloadUrl('/home/user/signed.txt', { useSignatureExpiration: 60, user: 'root' })), [200, 'for you'])
  const [status, text] = await get(await s.downloadUrl('signed.txt', { useSignatureExpiration: -10 }))
  assert.deepEqual([status, JSON.parse(text)], [401, { code: 401, message: 'signature is already expired' }])
  assert.equal((await get((await s.downloadUrl('signed.txt')).replace('signed', 'other')))[0], 401)
  assert.equal((await get((await s.downloadUrl('signed.txt')) + '&signature_expiration=99999999999'))[0], 401)
  const form = () => { const f = new FormData(); f.append('file', 'content'); return f }
  const up = await fetch(await s.uploadUrl('up.txt', { useSignatureExpiration: 60 }), { method: 'POST', body: form() })
  assert.deepEqual([up.status, await up.json()], [200, [{ name: 'up.txt', path: '/home/user/up.txt', type: 'file' }]])
  const root = await fetch(await s.uploadUrl('up.txt', { user: 'root' }), { method: 'POST', body: form() })
  assert.equal((await root.json())[0].path, '/root/up.txt')
  assert.equal((await fetch(await s.downloadUrl('up.txt'), { method: 'POST', body: form() })).status, 401) // signed to be read
})

test('the small ones', async () => {
  const at = (path, init) => fetch(url + path, { ...init, headers: { ...head, ...init?.headers } })
  assert.equal((await at('/health')).status, 204)
  assert.equal((await (await at('/envs')).json()).E2B_SANDBOX, 'true')
  const m = await (await at('/metrics')).json()
  for (const k of ['ts', 'cpu_count', 'cpu_used_pct', 'mem_total', 'mem_used', 'disk_used', 'disk_total']) assert.equal(typeof m[k], 'number', k)
  await s.files.write([{ path: 'c1', data: 'one ' }, { path: 'c2', data: 'two' }])
  const c = await at('/files/compose', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ source_paths: ['c1', 'c2'], destination: 'd/c3' }) })
  assert.deepEqual([c.status, await c.json()], [200, { name: 'c3', path: '/home/user/d/c3', type: 'file' }])
  assert.equal(await s.files.read('d/c3'), 'one two')
  assert.equal(await s.files.exists('c1'), false)
})

test('every format of a file that is there, empty or missing, fifty at once', async () => {
  const text = 'a line of text, \u00fc\n'.repeat(5000)
  await s.files.write([{ path: 'all/there', data: text }, { path: 'all/empty', data: '' }])
  const forms = {
    text: (x) => x,
    bytes: (x) => Buffer.from(x).toString(),
    blob: (x) => x.text(),
    stream: (x) => new Response(x).text(),
  }
  for (const [format, whole] of Object.entries(forms)) {
    const read = async (path) => whole(await s.files.read(path, { format }))
    await Promise.all(Array.from({ length: 50 }, async (_, i) => {
      if (i % 3 === 0) assert.equal(await read('all/there'), text, format)
      else if (i % 3 === 1) assert.equal(await read('all/empty'), '', format)
      else await assert.rejects(read('all/missing'), FileNotFoundError, format)
    }))
  }
})
