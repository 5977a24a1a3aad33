// SPDX-License-Identifier: Apache-2.0
// What the suites share: a sandbox that goes with its test, and waiting.
import { after } from 'node:test'
import { Sandbox } from 'e2b'

const made = []

export async function sandbox(...args) {
  const s = await Sandbox.create(...args)
  made.push(s)
  return s
}

export function keep(s) {
  made.push(s)
  return s
}

after(async () => {
  await Promise.all(made.map((s) => Sandbox.kill(s.sandboxId).catch(() => {})))
})

export async function until(what, ms = 20000) {
  const end = Date.now() + ms
  for (;;) {
    const value = await what()
    if (value) return value
    if (Date.now() > end) throw new Error('timed out: ' + what)
    await new Promise((r) => setTimeout(r, 50))
  }
}

export const sh = async (s, command, opts) => (await s.commands.run(command, opts)).stdout.trim()

export const id = () => Math.random().toString(36).slice(2)
