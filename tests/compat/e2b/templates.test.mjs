// SPDX-License-Identifier: Apache-2.0
// Templates: every kind of step, logs, tags, names, and builds that fail.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { BuildError, Sandbox, Template, waitForFile, waitForTimeout } from 'e2b'
import { id, sandbox, sh } from './lib.mjs'

test('run, copy, environment, user, working directory', async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'e2b'))
  fs.mkdirSync(path.join(dir, 'folder/deep'), { recursive: true })
  fs.writeFileSync(path.join(dir, 'one.txt'), 'one')
  fs.writeFileSync(path.join(dir, 'folder/two.txt'), 'two')
  fs.writeFileSync(path.join(dir, 'folder/deep/three.txt'), 'three')
  const name = `steps-${id()}`
  const logs = []
  const t = Template({ fileContextPath: dir })
    .fromBaseImage()
    .setEnvs({ A: 'a b', B: '2', ONCE: name }) // nothing of it is cached
    .runCmd('echo "A=$A in $(pwd) by $(whoami)"')
    .runCmd(['touch /opt/by-root', 'chmod 600 /opt/by-root'], { user: 'root' })
    .copy('one.txt', 'dir/')
    .copy('one.txt', '/home/user/renamed.txt', { mode: 0o755 })
    .copy('folder', 'copied')
    .makeDir('/home/user/made', { mode: 0o755 })
    .makeSymlink('/home/user/renamed.txt', '/home/user/link')
    .setWorkdir('/home/user/work')
    .runCmd('echo in > file')
  const built = await Template.build(t, name, { onBuildLogs: (l) => logs.push(l.message) })
  fs.rmSync(dir, { recursive: true })
  assert.equal(built.name, name)
  assert.ok(logs.some((l) => l.includes('A=a b in /home/user by user')), logs.join('\n'))
  const s = await sandbox(name)
  assert.equal((await s.getInfo()).name, name)
  assert.equal(await sh(s, 'pwd; cat file; echo "$A $B"'), '/home/user/work\nin\na b 2')
  assert.equal(
    await sh(s, 'cd; cat dir/one.txt renamed.txt link copied/two.txt copied/deep/three.txt; stat -c "%U %a" renamed.txt copied/two.txt; stat -c "%U %a" /opt/by-root; test -d made'),
    'oneoneonetwothreeuser 755\nuser 644\nroot 600'
  )
  assert.equal(await Template.exists(name), true)
  assert.equal(await Template.exists(`no-${name}`), false)
})

test('a template on a template; the start command runs in each sandbox', async () => {
  const base = `on-${id()}`
  const child = `child-${id()}`
  await Template.build(Template().fromBaseImage().runCmd('echo base > file').setEnvs({ FROM: 'base' }), base)
  await Template.build(
    Template().fromTemplate(base).runCmd('echo "$FROM child" >> file').setStartCmd('echo up > /tmp/up; sleep 600', waitForFile('/tmp/up')),
    child
  )
  for (const s of await Promise.all([sandbox(child), sandbox(child)])) {
    assert.equal(await sh(s, 'cat file /tmp/up; pgrep -xc sleep; echo $FROM'), 'base\nbase child\nup\n1\nbase')
  }
})

test('a Dockerfile, owners with a group, links as they are', async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'e2b'))
  fs.mkdirSync(path.join(dir, 'sub'))
  fs.writeFileSync(path.join(dir, 'a.txt'), 'a')
  fs.writeFileSync(path.join(dir, 'sub/b.txt'), 'b')
  fs.symlinkSync('a.txt', path.join(dir, 'link'))
  const name = `docker-${id()}`
  const file = 'FROM e2bdev/base\nENV X=1\nWORKDIR /app\nCOPY a.txt ./\nCOPY --chown=user:user sub /app/s\nRUN echo $X $(whoami) > x\n'
  await Template.build(Template({ fileContextPath: dir }).fromDockerfile(file).copy('link', '/app/link'), name)
  fs.rmSync(dir, { recursive: true })
  const s = await sandbox(name)
  assert.equal(await sh(s, 'cat x; stat -c "%n %U:%G" a.txt s s/b.txt; readlink link'), '1 root\na.txt root:root\ns user:user\ns/b.txt user:user\na.txt')
})

test('tags', async () => {
  const name = `tag-${id()}`
  await Template.build(Template().fromBaseImage().runCmd('echo 1 > v'), `${name}:v1`)
  await Template.build(Template().fromBaseImage().runCmd('echo 2 > v'), name, { tags: ['v2', 'default'] })
  assert.equal(await sh(await sandbox(`${name}:v1`), 'cat v'), '1')
  assert.equal(await sh(await sandbox(name), 'cat v'), '2')
  const t = await Template.assignTags(`${name}:v1`, ['stable'])
  assert.deepEqual(t.tags, ['stable'])
  assert.equal(await sh(await sandbox(`${name}:stable`), 'cat v'), '1')
  assert.deepEqual((await Template.getTags(name)).map((x) => x.tag).sort(), ['default', 'stable', 'v1', 'v2'])
  await Template.removeTags(name, ['stable', 'v2'])
  assert.deepEqual((await Template.getTags(name)).map((x) => x.tag).sort(), ['default', 'v1'])
  await assert.rejects(Sandbox.create(`${name}:stable`))
})

test('in the background', async () => {
  const name = `bg-${id()}`
  const b = await Template.buildInBackground(Template().fromBaseImage().runCmd('sleep 0.3; echo done'), name)
  for (;;) {
    const st = await Template.getBuildStatus(b)
    if (st.status !== 'building' && st.status !== 'waiting') {
      assert.equal(st.status, 'ready')
      break
    }
    await new Promise((r) => setTimeout(r, 100))
  }
})

test('builds that fail say where', async () => {
  const build = (t) => Template.build(t, `bad-${id()}`)
  await assert.rejects(build(Template().fromBaseImage().runCmd('true').runCmd('echo no >&2; exit 3')), (e) => e instanceof BuildError && /step 2.*3/.test(e.message))
  await assert.rejects(build(Template().fromImage('localhost:1/has-this:1')), (e) => e instanceof BuildError && /localhost:1/.test(e.message))
  await assert.rejects(build(Template().fromTemplate('nobody-has-this')), (e) => e instanceof BuildError && /not found/.test(e.message))
  await assert.rejects(build(Template().fromBaseImage().setUser('nobody-here').runCmd('true')), BuildError)
  await assert.rejects(build(Template().fromBaseImage().setWorkdir('/etc/passwd')), BuildError)
  await assert.rejects(
    build(Template().fromBaseImage().setStartCmd('./not-there', waitForTimeout(100))),
    (e) => e instanceof BuildError && /start command failed: exit status 127/.test(e.message)
  )
  await Template.build(Template().fromBaseImage().setReadyCmd('test -e one || { touch one; false; }'), `ready-${id()}`)
})

test('steps that are as they were are not run again', async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'e2b'))
  const put = (text) => fs.writeFileSync(path.join(dir, 'file.txt'), text)
  const mark = id()
  const steps = (last, skip = (t) => t) =>
    skip(
      Template({ fileContextPath: dir })
        .fromBaseImage()
        .setEnvs({ MARK: mark })
        .runCmd('date +%s%N > first; echo $MARK > mark')
    )
      .setWorkdir('/home/user/in')
      .copy('file.txt', 'file.txt')
      .runCmd(last)
  const build = async (t, opts) => {
    const logs = []
    const name = `cache-${id()}`
    await Template.build(t, name, { ...opts, onBuildLogs: (l) => logs.push(l.message) })
    const s = await sandbox(name)
    return { cached: logs.filter((l) => l.startsWith('CACHED ')).length, said: await sh(s, 'pwd; cat ../first ../mark file.txt; cat last') }
  }
  put('one')
  const a = await build(steps('echo x > last'))
  assert.equal(a.cached, 0)
  const same = await build(steps('echo x > last'))
  assert.deepEqual([same.cached, same.said], [5, a.said])
  const other = await build(steps('echo y > last'))
  assert.deepEqual([other.cached, other.said], [4, a.said.replace(/x$/, 'y')])
  put('two')
  const copied = await build(steps('echo x > last'))
  assert.deepEqual([copied.cached, copied.said], [2, a.said.replace('one', 'two')])
  put('one')
  assert.equal((await build(steps('echo x > last', (t) => t.skipCache()))).cached, 2)
  const forced = await build(steps('echo x > last'), { skipCache: true })
  assert.equal(forced.cached, 0)
  assert.notEqual(forced.said, a.said)
  assert.equal((await build(steps('echo x > last'))).said, forced.said)
  fs.rmSync(dir, { recursive: true })
})
