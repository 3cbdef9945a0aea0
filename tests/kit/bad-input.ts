import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { tempDir } from './temp.ts'
import { patience } from './unit.ts'

const DIST = fileURLToPath(new URL('../../dist/', import.meta.url))
export const HEAD =
  '| Node | Agent | Netns | CDP Port | Veth IP (host) | Peer IP (netns) | Relay Target | Status |\n' +
  `|${'---|'.repeat(8)}\n`
export const row = (name: string, n: number, status = 'active') =>
  `| ${name} | a | warp-${name} | 94${n} | 10.201.${n}.1 | 10.201.${n}.2 | 127.0.0.1:94${n} | ${status} |\n`

/** A host of files whose tools do nothing: what is refused must not even come to them. */
export class Root {
  readonly dir: string
  constructor(t: TestContext) {
    this.dir = tempDir(t)
    this.write('etc/netvm/NODES.md', `# Nodes\n\n${HEAD}${row('muse', 10)}${row('old', 30, 'retired')}`)
    for (const tool of ['systemctl', 'journalctl', 'ip', 'nft', 'wg', 'curl', 'nsenter', 'ss']) {
      this.write(`bin/${tool}`, '#!/bin/sh\necho "stand-in: no" >&2; exit 1\n')
      chmodSync(join(this.dir, 'bin', tool), 0o755)
    }
  }
  write(path: string, text: string): void {
    mkdirSync(join(this.dir, path, '..'), { recursive: true })
    writeFileSync(join(this.dir, path), text)
  }
  run([program = '', ...args]: readonly string[], env: Record<string, string> = {}) {
    const ran = spawnSync(process.execPath, [join(DIST, program), ...args], {
      encoding: 'utf8',
      timeout: patience(30_000),
      env: {
        ...process.env,
        NETVM_ROOT: this.dir,
        PATH: `${this.dir}/bin:${process.env.PATH}`,
        CDP_PRIORITY: '',
        ...env,
      },
    })
    return { code: ran.status, out: ran.stdout, err: ran.stderr }
  }
  /** Every path with its mode and content. */
  tree(): string[] {
    return readdirSync(this.dir, { recursive: true, encoding: 'utf8' })
      .filter((f) => !f.startsWith('bin'))
      .sort()
      .map((f) => {
        const st = statSync(join(this.dir, f))
        return `${f} ${st.mode.toString(8)} ${st.isFile() ? readFileSync(join(this.dir, f), 'utf8') : ''}`
      })
  }
}

/** What is typed, word by word; the command that is offered must start with one of our programs, or a tool. */
const PROGRAMS = readdirSync(DIST).filter((f) => !f.includes('.') && statSync(join(DIST, f)).isFile())
const TOOLS = [
  'apt-get',
  'chmod',
  'df',
  'editor',
  'findmnt',
  'journalctl',
  'ls',
  'mv',
  'namei',
  'ps',
  'sudo',
  'systemctl',
  'unset',
]

export interface Expected {
  readonly code: number | readonly number[]
  readonly names: RegExp
}

/** The sentence of the contract: one line, sane, that names the thing and ends with one command. */
export function refused(ran: ReturnType<Root['run']>, program: string, { code, names }: Expected): void {
  const all = JSON.stringify(ran)
  assert.ok([code].flat().includes(ran.code ?? -1), all)
  assert.equal(ran.out, '', all)
  assert.match(ran.err, /^[^\n]+\n$/, all)
  const line = ran.err.slice(0, -1)
  assert.ok(line.startsWith(`${program}: `), all)
  assert.ok(line.length <= 700, `${line.length} characters`)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: this is what must not be there
  assert.doesNotMatch(line, /[\u0000-\u001f\u007f-\u009f]/, all)
  assert.match(line, names)
  assert.doesNotMatch(line, /internal error/)
  const next = /^[^;].*; next: (.+)$/.exec(line)?.[1] ?? ''
  assert.ok(
    PROGRAMS.some((p) => next.split(' ')[0] === p) || TOOLS.includes(next.split(' ')[0] ?? ''),
    `no command to run next: ${line}`,
  )
  assert.doesNotMatch(next, /[<>…]/, `not to be run as it stands: ${next}`)
}

export function check(
  name: string,
  argv: readonly string[],
  expected: Expected,
  more: Partial<More> = {},
): void {
  test(`${name}: ${argv.map((a) => JSON.stringify(a).slice(0, 40)).join(' ')}`, (t) => {
    const root = new Root(t)
    more.before?.(root)
    const before = root.tree()
    const ran = root.run(argv, more.env?.(root))
    refused(ran, argv[0] ?? '', expected)
    assert.deepEqual(root.tree(), before)
  })
}

export interface More {
  readonly before: (root: Root) => void
  readonly env: (root: Root) => Record<string, string>
}
