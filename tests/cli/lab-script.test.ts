import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { patience } from '../kit/unit.ts'
import { until } from '../kit/until.ts'

const LAB = fileURLToPath(new URL('../../scripts/lab', import.meta.url))
const skip = process.getuid?.() === 0 ? false : 'needs root to boot a lab'
const env = { ...process.env, NETVM_LAB_BUILT: '1' }
const dir = mkdtempSync(join(tmpdir(), 'lab-script-'))
after(() => rmSync(dir, { recursive: true, force: true }))

function script(name: string, text: string): string {
  const file = join(dir, name)
  writeFileSync(file, `#!/bin/sh\n${text}\n`, { mode: 0o755 })
  return file
}

/** Processes of a lab, found by the cgroup that the lab made for itself. */
function processesOf(lab: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cgroup`, 'utf8').includes(`/lab-${lab}`)
      } catch {
        return false
      }
    })
}

test('the exit status and the arguments of FILE are passed on, as root of a running systemd', {
  skip,
}, () => {
  const file = script('status', 'systemctl is-system-running; id -u; echo "$1-$2"; exit 7')
  const ran = spawnSync(LAB, ['run', file, 'a b', 'c'], { encoding: 'utf8', env, timeout: patience(120_000) })
  assert.equal(ran.status, 7, ran.stderr)
  assert.equal(ran.stdout, 'running\n0\na b-c\n')
})

test('labs run side by side, and a killed one leaves nothing behind', { skip }, async () => {
  const flag = script('long', 'echo up; exec sleep 3600')
  const labs: ChildProcess[] = [0, 1].map(() =>
    spawn(LAB, ['run', flag], { env, stdio: ['ignore', 'pipe', 'inherit'] }),
  )
  for (const lab of labs) {
    const [first] = (await once(lab.stdout as NodeJS.ReadableStream, 'data')) as [Buffer]
    assert.match(String(first), /up/)
  }
  const [killed, other] = labs as [ChildProcess, ChildProcess]
  const inside = spawnSync(LAB, ['exec', 'systemctl', 'is-active', 'dbus.service'], { encoding: 'utf8', env })
  assert.equal(inside.stdout.trim(), 'active', inside.stderr)
  killed.kill('SIGKILL')
  await until('no process of the killed lab is left', () => processesOf(killed.pid ?? 0).length === 0)
  assert.ok(processesOf(other.pid ?? 0).length > 3, 'the other one lives')
  other.kill('SIGTERM')
  await once(other, 'exit')
  // One that is asked to end takes its groups along; those of a killed one are the next lab's to take.
  const groups = (lab: ChildProcess): string[] =>
    ['', '/systemd', '/unified'].map((top) => `/sys/fs/cgroup${top}/lab-${lab.pid}`).filter(existsSync)
  assert.deepEqual(groups(other), [])
  await until('the other one is gone', () => processesOf(other.pid ?? 0).length === 0)
  assert.equal(spawnSync(LAB, ['run', script('next', 'true')], { env, timeout: patience(120_000) }).status, 0)
  for (const lab of labs) assert.deepEqual(groups(lab), [])
})

test('wrong use is told in one line with exit code 64', { skip }, () => {
  for (const args of [[], ['run'], ['run', '/nonexistent'], ['exec'], ['dance']]) {
    const ran = spawnSync(LAB, args, { encoding: 'utf8', env })
    assert.equal(ran.status, 64, args.join(' '))
    assert.equal(ran.stderr.trim().split('\n').length, 1)
  }
})
