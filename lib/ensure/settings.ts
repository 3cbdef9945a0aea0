import { chmodSync, closeSync, mkdirSync, openSync, rmdirSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { attempt } from '../base/attempt.ts'
import { nodeEnvPath, type Paths } from '../base/paths.ts'
import type { Node } from '../base/types.ts'
import { PERIOD_MS } from '../evidence/owners.ts'
import { QUEUE_MODE, SLOT_MODE, SLOTS } from '../queue/dir.ts'
import { deriveNames, unitsOf } from '../registry/names.ts'
import { renderNodeEnv } from '../registry/node-env.ts'
import type { WantedFile } from './types.ts'

/** First elapse of a node's timer after it is armed, in seconds: a browser that boots with it is up by then. */
const FIRST_ELAPSE_S = 15
/** The fixed offsets of nodes spread over this many seconds, so that they do not all fire at once. */
const SPREAD_S = 21

const HEAD = '# Written by ensure-node-supervision from the row of the registry; do not edit.\n'

/** The row's drop-in of a unit; an operator's override.conf sorts after it and wins. */
export function dropIn(p: Paths, unit: string): string {
  return join(p.unitDir, `${unit}.d`, 'netvm.conf')
}

/** Where a node's settings are: of all its units, of its relay's socket, of its timer. */
export function settingsFiles(p: Paths, name: string) {
  const { socket, timer } = unitsOf(name)
  return [nodeEnvPath(p, name), dropIn(p, socket), dropIn(p, timer)] as const
}

/** The files that carry a row to the node's units. */
export function wantedFiles(p: Paths, node: Node): WantedFile[] {
  const names = deriveNames(node.name)
  const [env, socket, timer] = settingsFiles(p, node.name)
  const listen = `[Socket]\nListenStream=\nListenStream=${node.peer}:${node.cdpPort}\n`
  const elapses = `[Timer]
# An empty assignment forgets every elapse of the template, so the period stands here again.
OnActiveSec=
OnActiveSec=${FIRST_ELAPSE_S + (names.octet % SPREAD_S)}s
OnUnitActiveSec=${PERIOD_MS['chromebox-watchdog'] / 1000}s
`
  return [
    { path: env, text: renderNodeEnv(node, names), what: 'settings' },
    { path: socket, text: `${HEAD}${listen}`, what: 'relay address' },
    { path: timer, text: `${HEAD}${elapses}`, what: 'timer offset' },
  ]
}

/** Removes settings, and the directory of a drop-in unless somebody else's drop-ins are in it. */
export function removeFiles(paths: readonly string[]): void {
  for (const path of paths) {
    rmSync(path, { force: true })
    if (path.endsWith('/netvm.conf')) attempt(() => rmdirSync(dirname(path)))
  }
}

/** Whether the node's CDP queue is there for the group that shares it. */
export function queueReady(p: Paths, node: string): boolean {
  const dir = join(p.queue, node)
  const mode = (path: string) => attempt(() => statSync(path).mode & 0o7777)
  // A slot that is not there yet is made by the first client that wants it.
  const fits = (slot: string) => [undefined, SLOT_MODE].includes(mode(join(dir, slot)))
  return mode(dir) === QUEUE_MODE && SLOTS.every(fits)
}

/**
 * Makes the node's CDP queue: a directory and two slots that are never unlinked. The group comes from the
 * set-group-ID bit of the directory above, which tmpfiles gives to `netvm`.
 */
export function makeQueue(p: Paths, node: string): void {
  const dir = join(p.queue, node)
  mkdirSync(dir, { recursive: true })
  // chmod, because mkdir and open are subject to the umask of whoever runs us.
  chmodSync(dir, QUEUE_MODE)
  for (const slot of SLOTS) {
    closeSync(openSync(join(dir, slot), 'a', SLOT_MODE))
    chmodSync(join(dir, slot), SLOT_MODE)
  }
}
