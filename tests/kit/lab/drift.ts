import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { browser, cursor, entries, nodeUp, ok, sh, until, untilTitled, writeUnit } from '../lab.ts'

export const TIMER = 'chromebox-watchdog@muse.timer'
export const SERVICE = 'chromebox-watchdog@muse.service'
export const REGISTRY = '/etc/netvm/NODES.md'
export const units = '/etc/systemd/system'
export const check = () => sh(['ensure-node-supervision', '--check'])
export const all = () => sh(['ensure-node-supervision', '--all'])
export const reload = () => ok(['systemctl', 'daemon-reload'])
export const drift = (): string[] =>
  check()
    .stdout.split('\n')
    // What has no run yet, or none since the test stopped a timer, is no drift here.
    .filter(
      (line) =>
        line.startsWith('NOT MET') && !/: (chromebox-watchdog|cdp-relay-watchdog|agent-health): /.test(line),
    )

/** A run of --all that says nothing and after which systemd has not reloaded. */
export function quiet(): void {
  const position = cursor()
  const run = all()
  assert.equal(run.all, '')
  assert.equal(run.code, 0)
  assert.deepEqual(reloads(position), [])
}

function reloads(after: string): (string | undefined)[] {
  return entries(after)
    .map((e) => e.MESSAGE)
    .filter((message) => /^Reloading/.test(message ?? ''))
}

export interface Drift {
  readonly name: string
  readonly inject: () => void | Promise<void>
  /** What --check says, and --all in its line, before the colon and what it did. */
  readonly says: RegExp
  readonly did: RegExp
  /** Takes away what keeps breaking it, once it was healed. */
  readonly cleanup?: () => void
}

/** --check says what is wrong, --all heals it in one line, and a second --all says nothing. */
export async function heals(d: Drift): Promise<void> {
  await d.inject()
  const before = drift()
  assert.ok(
    before.some((line) => d.says.test(line)),
    before.join('\n') || 'no drift seen',
  )
  assert.equal(check().code, 1)
  const healed = all()
  const lines = healed.all.trim().split('\n')
  assert.equal(lines.length, 1, healed.all)
  assert.match(lines[0] ?? '', d.says)
  assert.match(lines[0] ?? '', d.did)
  assert.equal(healed.code, 0)
  d.cleanup?.()
  assert.deepEqual(drift(), [])
  quiet()
}

/** What is a person's to decide, and the command that undoes it. */
export interface Decision {
  readonly name: string
  readonly inject: () => void | Promise<void>
  readonly says: RegExp
  readonly next: RegExp
  /** What is healed only after that; nothing when absent. */
  readonly afterwards?: Omit<Drift, 'inject' | 'name'>
}

/** --check says it and the command, --all changes nothing and says so again, and the command undoes it. */
export async function reports(d: Decision): Promise<void> {
  await d.inject()
  const before = drift()
  assert.equal(before.length, 1, before.join('\n') || 'no drift seen')
  const [line = ''] = before
  assert.match(line, d.says)
  const next = /; next: (.*)$/.exec(line)?.[1] ?? ''
  assert.match(next, d.next)
  for (let i = 0; i < 2; i++) {
    const position = cursor()
    const run = all()
    assert.deepEqual([run.code, run.stdout], [1, ''])
    assert.equal(run.stderr.trim(), line.replace(/^NOT MET +/, ''))
    assert.deepEqual(reloads(position), [])
  }
  assert.equal(check().code, 1)
  ok(['bash', '-c', next])
  if (d.afterwards) return heals({ ...d.afterwards, name: d.name, inject: () => {} })
  assert.deepEqual(drift(), [])
  quiet()
}

export const state = (unit: string) => sh(['systemctl', 'is-active', unit]).stdout.trim()

/** Runs the watchdog's service once with a drop-in that makes it fail, and takes the drop-in away. */
export async function failWith(result: string, dropIn: string): Promise<void> {
  writeUnit(`${SERVICE}.d/zz-fault.conf`, dropIn)
  reload()
  sh(['systemctl', 'start', SERVICE])
  try {
    await until(
      result,
      () => ok(['systemctl', 'show', '-p', 'Result', '--value', SERVICE]) === result,
      10_000,
    )
  } finally {
    rmSync(`${units}/${SERVICE}.d/zz-fault.conf`)
    reload()
  }
}

let registry = ''

/** Whatever a test that failed left of drift: it is another one's beginning. */
function takeBack(): void {
  writeFileSync(REGISTRY, registry)
  const ours = ['chromebox*', 'cdp-relay*', 'agent-health*', 'netvm*'].flatMap((name) => [
    '-o',
    '-name',
    name,
  ])
  for (const place of [units, '/run/systemd/system']) {
    sh(['find', place, '-name', 'zz-*.conf', '-delete'])
    // A mask.
    sh(['find', place, '-lname', '/dev/null', '(', ...ours.slice(1), ')', '-delete'])
  }
  reload()
  sh(['systemctl', 'stop', SERVICE])
  sh(['systemctl', 'reset-failed'])
  all()
  sh(['systemctl', 'restart', TIMER, 'agent-health.timer', 'cdp-relay-watchdog.timer'])
  all()
}

/** A test of `driftHost`'s host. One that fails takes no other along. */
export function driftTest(name: string, body: () => unknown): void {
  test(name, async () => {
    try {
      await body()
    } catch (failure) {
      takeBack()
      throw failure
    }
  })
}

/** One node for the whole file. No heal may touch its browser. */
export function driftHost(): void {
  let was: ReturnType<typeof browser>
  before(async () => {
    nodeUp('muse', { args: ['--port', '9410'] })
    await untilTitled('muse')
    was = browser('muse')
    registry = readFileSync(REGISTRY, 'utf8')
    // The lab's systemd is told to say little; a host's says when it reloads and how runs end.
    ok(['systemd-analyze', 'log-level', 'info'])
    quiet()
  })
  after(() => assert.deepEqual(browser('muse'), was, 'the browser was touched'))
}
