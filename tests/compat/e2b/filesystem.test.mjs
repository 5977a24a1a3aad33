// SPDX-License-Identifier: Apache-2.0
// Files and directories by name: what is there, making, moving, removing, watching.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { FileNotFoundError, InvalidArgumentError, SandboxError } from 'e2b'
import { sandbox, sh, until } from './lib.mjs'

let s
before(async () => { s = await sandbox() })

test('entries', async () => {
  await sh(s, 'mkdir -p e/sub && echo hello > e/a.txt && chmod 640 e/a.txt && ln -s a.txt e/link && ln -s /no/where e/broken && ln -s sub e/dirlink')
  const a = await s.files.getInfo('e/a.txt')
  assert.deepEqual([a.name, a.type, a.path, a.size, a.mode, a.permissions, a.owner, a.group], ['a.txt', 'file', '/home/user/e/a.txt', 6, 0o640, '-rw-r-----', 'user', 'user'])
  assert.ok(Math.abs(a.modifiedTime - Date.now()) < 600_000)
  const d = await s.files.getInfo('~/e')
  assert.deepEqual([d.type, d.mode, d.permissions, d.symlinkTarget], ['dir', 0o755, 'drwxr-xr-x', undefined])
  assert.ok(d.size > 0)
  const l = await s.files.getInfo('e/link')
  assert.deepEqual([l.type, l.mode, l.permissions, l.symlinkTarget], ['file', 0o640, 'Lrwxrwxrwx', '/home/user/e/a.txt'])
  assert.equal((await s.files.getInfo('/tmp')).permissions, 'dtrwxrwxrwx')
  assert.equal((await s.files.getInfo('e/broken')).symlinkTarget, '/home/user/e/broken')
  assert.deepEqual([await s.files.exists('e'), await s.files.exists('e/none'), await s.files.exists('e/a.txt/none')], [true, false, false])
  await assert.rejects(s.files.getInfo('none'), FileNotFoundError)
  assert.equal((await s.files.getInfo('x', { user: 'root' }).catch((e) => e.message)).includes('/root/x'), true)
})

test('lists: by name, depth first, links not entered', async () => {
  for (const d of ['l/s1/a', 'l/s1/b', 'l/s2/c', 'l/empty']) await s.files.makeDir(d)
  await s.files.write('l/f.txt', 'x')
  await sh(s, 'ln -s s1 l/zlink')
  const paths = async (depth) => (await s.files.list('l', depth && { depth })).map((e) => e.path.slice('/home/user/l/'.length))
  assert.deepEqual(await paths(), ['empty', 'f.txt', 's1', 's2', 'zlink'])
  const all = ['empty', 'f.txt', 's1', 's1/a', 's1/b', 's2', 's2/c', 'zlink']
  assert.deepEqual(await paths(2), all)
  assert.deepEqual(await paths(9), all)
  assert.deepEqual((await s.files.list('l/zlink')).map((e) => e.path), ['/home/user/l/zlink/a', '/home/user/l/zlink/b'])
  assert.deepEqual(await s.files.list('l/empty'), [])
  await assert.rejects(s.files.list('none'), FileNotFoundError)
  await assert.rejects(s.files.list('l/f.txt'), InvalidArgumentError)
  await sh(s, 'mkdir many && cd many && seq 3000 | xargs touch')
  assert.equal((await s.files.list('many')).length, 3000)
})

test('making, moving, removing', async () => {
  assert.equal(await s.files.makeDir('m/a/b'), true)
  assert.equal(await s.files.makeDir('m/a/b'), false)
  await s.files.write('m/f', 'x')
  await assert.rejects(s.files.makeDir('m/f'), InvalidArgumentError)
  await assert.rejects(s.files.makeDir('m/f/below'), SandboxError)
  const moved = await s.files.rename('m/f', 'm/new/deep/g')
  assert.deepEqual([moved.name, moved.path, moved.type], ['g', '/home/user/m/new/deep/g', 'file'])
  assert.equal(await s.files.exists('m/f'), false)
  assert.equal((await s.files.rename('m/a', '/tmp/moved-away')).type, 'dir') // to another file system
  assert.deepEqual((await s.files.list('/tmp/moved-away')).map((e) => e.name), ['b'])
  await assert.rejects(s.files.rename('m/none', 'm/x'), FileNotFoundError)
  await s.files.remove('m')
  await s.files.remove('m')
  assert.equal(await s.files.exists('m'), false)
  const d = await s.files.makeDir('/made/at/the/top')
  assert.equal(d, true)
  assert.equal((await s.files.getInfo('/made/at')).owner, 'user')
})

test('watching', async () => {
  await s.files.makeDir('w/old')
  const seen = []
  const w = await s.files.watchDir('w', (e) => seen.push(e), { recursive: true, includeEntry: true })
  await s.files.write('w/f.txt', 'one')
  await s.files.write('w/f.txt', 'two!')
  await s.files.makeDir('w/new')
  await s.files.write('w/new/g', '12345')
  await sh(s, 'chmod 600 w/f.txt && mv w/f.txt w/old/h && rm w/old/h')
  const has = (type, name) => seen.some((e) => e.type === type && e.name === name)
  await until(() => has('remove', 'old/h'))
  for (const [type, name] of [['create', 'f.txt'], ['write', 'f.txt'], ['chmod', 'f.txt'], ['create', 'new'], ['create', 'new/g'], ['write', 'new/g'], ['rename', 'f.txt'], ['create', 'old/h']])
    assert.ok(has(type, name), `${type} ${name} in ${JSON.stringify(seen)}`)
  assert.ok(seen.some((e) => e.name === 'new/g' && e.entry?.size === 5 && e.entry.path === '/home/user/w/new/g'))
  assert.ok(seen.every((e) => e.type !== 'remove' || !e.entry))
  await w.stop()
  const n = seen.length
  await s.files.write('w/after', 'x')
  assert.equal(seen.length, n)

  const flat = []
  const v = await s.files.watchDir('w', (e) => flat.push(e.name))
  await s.files.write('w/new/not-seen', 'x')
  await s.files.write('w/seen', 'x')
  await until(() => flat.includes('seen'))
  assert.equal(flat.some((x) => x.includes('not-seen')), false)
  await v.stop()
  await assert.rejects(s.files.watchDir('none', () => {}), FileNotFoundError)
  await assert.rejects(s.files.watchDir('w/seen', () => {}), InvalidArgumentError)
})

test('a watch ends with its sandbox', async () => {
  const b = await sandbox()
  let end
  const ended = new Promise((r) => { end = r })
  await b.files.watchDir('/home/user', () => {}, { onExit: end })
  await b.kill()
  assert.equal((await ended)?.name, 'TimeoutError')
})
