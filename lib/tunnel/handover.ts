import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { sleep } from '../base/deadline.ts'
import { namesIn } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import { resolvMatches } from '../netns/resolv.ts'
import { readTunnelConf } from './conf-file.ts'
import { tunnelConfPath } from './configured.ts'
import { resolveEndpoints } from './endpoints.ts'
import { carriesV6, insideLines, renderSetconf } from './render.ts'
import type { TunnelNames } from './setup.ts'

/** How long what is handed over counts, in seconds of /proc/uptime: a restart reads it within a tenth of one. */
const VALID_S = 5
/** The host's resolver usually knows the name; the unit's own start waits for one that takes its time. In milliseconds. */
const RESOLVE_DEADLINE_MS = 500
const POLL_MS = 1

/** Where the unit's tunnel-start looks. Root's alone: it holds the keys. */
function handoverPath(p: Paths, node: string): string {
  return join(p.run, 'tunnel', node)
}

/**
 * Hands the next start of a node's tunnel unit, within 5 s, what its own `netvm-tunnel up` would find out: the
 * configuration read, checked and rendered, its endpoints resolved now. A process that runs already has that in 2 ms,
 * and a start without Node takes half as long. Only an offer: without it, or when anything about it fails, the
 * unit takes the long way and says what is wrong. So nothing is thrown, and nothing is offered when anything is wrong.
 * @returns whether it was offered; `withdrawHandover` must follow the start either way.
 */
export async function offerHandover(p: Paths, { node, netns, wg }: TunnelNames): Promise<boolean> {
  const path = handoverPath(p, node)
  const draft = `${path}.${process.pid}`
  try {
    // What a run that was killed left behind is about another start.
    withdrawHandover(p, node)
    // Before it is read: a file that is changed or replaced from here on has another stamp.
    const version = stamp(tunnelConfPath(p, node))
    // The short way does not write it, and a browser that is up has it already.
    if (!resolvMatches(p, node, netns)) return false
    const conf = readTunnelConf(p, node)
    // The unit's own start prints these, so that the journal has them every time.
    if (conf.ignored.length > 0) return false
    const setconf = renderSetconf(conf, await resolveEndpoints(conf, RESOLVE_DEADLINE_MS))
    const until = Math.floor(Number(readFileSync(`${p.proc}/uptime`, 'latin1').split(' ')[0])) + VALID_S
    const files = {
      setconf,
      inside: `${insideLines(wg, conf).join('\n')}\n`,
      ...(carriesV6(conf) ? { v6: '' } : {}),
      until: `${until}\n`,
      conf: `${version}\n`,
    }
    mkdirSync(draft, { recursive: true, mode: 0o700 })
    for (const [name, text] of Object.entries(files)) writeFileSync(join(draft, name), text, { mode: 0o600 })
    renameSync(draft, path)
    return true
  } catch {
    rmSync(draft, { recursive: true, force: true })
    return false
  }
}

/** One version of one file, as `stat -c '%i %.9Y %.9Z'` prints it: inode, and times in seconds. */
function stamp(path: string): string {
  const { ino, mtimeNs, ctimeNs } = statSync(path, { bigint: true })
  const seconds = (ns: bigint) => `${ns / 1_000_000_000n}.${String(ns % 1_000_000_000n).padStart(9, '0')}`
  return `${ino} ${seconds(mtimeNs)} ${seconds(ctimeNs)}`
}

/** Waits until the unit's start has made the tunnel of what was handed over, or `end` is over: true for the former. */
export async function handoverApplied(p: Paths, node: string, end: Promise<unknown>): Promise<boolean> {
  const path = join(handoverPath(p, node), 'applied')
  let over = false
  const ended = end.then(() => {
    over = true
  })
  while (!over) {
    if (existsSync(path)) return true
    await Promise.race([ended, sleep(POLL_MS)])
  }
  return existsSync(path)
}

/**
 * Takes back what was offered, and what a run that was killed left half written: keys stand in no second place for longer
 * than a restart. The caller holds the node's lock, so nobody is writing.
 */
export function withdrawHandover(p: Paths, node: string): void {
  const path = handoverPath(p, node)
  const dir = dirname(path)
  for (const name of namesIn(dir)) {
    // A node's name has no dot, and a draft's has one behind it.
    if (name === node || name.startsWith(`${node}.`))
      rmSync(join(dir, name), { recursive: true, force: true })
  }
}
