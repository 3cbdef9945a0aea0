import { strict as assert } from 'node:assert'
import { ok, sh } from '../lab.ts'
import type { Shell } from '../truth-table.ts'

/** An ordinary user of the host: in no group that may read the journal. */
const USER = 'tester'

const AS_USER = ['setpriv', `--reuid=${USER}`, `--regid=${USER}`, '--clear-groups', '--no-new-privs']

export function makeUser(): void {
  if (sh(['id', USER]).code !== 0) ok(['useradd', '--create-home', USER])
}

/** `argv` run by /bin/sh after `prepare` in a mount namespace of its own, then as the user. */
const prepared = (unshare: string, prepare: string, argv: readonly string[]): string[] => [
  'unshare',
  ...unshare.split(' '),
  '--',
  'sh',
  '-ec',
  `${prepare}; exec "$@"`,
  'sh',
  ...AS_USER,
  ...argv,
]

/** The command line that runs `argv` in a shell of a kind. */
export function inShell(shell: Shell, argv: readonly string[]): string[] {
  switch (shell) {
    case 'root':
      return [...argv]
    case 'user':
      return [...AS_USER, ...argv]
    case 'fake-root':
      return [...AS_USER, 'unshare', '-U', '-r', '--', ...argv]
    case 'hidepid':
      return prepared('-m', 'mount -t proc -o hidepid=2 proc /proc', argv)
    case 'own-pid':
      return ['unshare', '-p', '-f', '--mount-proc', '--', ...AS_USER, ...argv]
    case 'own-net':
      return ['unshare', '-n', '--', ...AS_USER, ...argv]
    case 'both':
      // What a sandbox does: everything of its own, made without any privilege.
      return [...AS_USER, 'unshare', '-U', '-r', '-n', '-p', '-f', '--mount-proc', '--', ...argv]
    case 'no-bus':
      return prepared(
        '-m',
        'mount -t tmpfs -o mode=755 tmpfs /run/dbus; mount -t tmpfs -o mode=755 tmpfs /run/systemd',
        argv,
      )
    case 'logs-only':
      return prepared(
        '-m -n -p -f --mount-proc',
        'mount -t tmpfs -o mode=755 tmpfs /run; mount -t tmpfs -o mode=755 tmpfs /var/log/journal',
        argv,
      )
  }
}

export interface Screen {
  readonly code: number | null
  readonly word: string
  readonly beneath: string
  readonly reason: string
  readonly source: string
  readonly notes: readonly string[]
  readonly unknowns: readonly string[]
  readonly raw: string
}

/** What `box fleet status <node> --json` says in a shell. */
export function statusIn(shell: Shell, node: string): Screen {
  const r = sh(inShell(shell, ['box', 'fleet', 'status', node, '--json']), { deadlineMs: 20_000 })
  assert.match(r.stdout, /^\{/, `${shell}: ${r.all}`)
  const [n] = JSON.parse(r.stdout).nodes
  return { code: r.code, word: n.text, raw: r.stdout, ...pick(n) }
}

function pick(n: Record<string, unknown>) {
  const { beneath, reason, source, notes, unknowns } = n as unknown as Screen
  return { beneath, reason, source, notes, unknowns }
}
