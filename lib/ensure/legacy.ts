import { existsSync } from 'node:fs'
import { basename, join } from 'node:path'
import { attempt } from '../base/attempt.ts'
import { namesIn, textOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Node } from '../base/types.ts'
import { runsIn } from '../evidence/process.ts'
import { listenersIn } from '../host/listeners.ts'
import { lookNetns } from '../host/netns.ts'
import { listPids, namespaceOf, readArgv } from '../host/proc.ts'
import type { Legacy } from './types.ts'

/**
 * Supervision of our nodes that is not ours: hand-written timers, user timers, cron lines, and browsers or
 * relays that run outside our units. Only what this shell can see.
 */
export function findLegacy(p: Paths, nodes: readonly Node[]): Legacy[] {
  const perNode = nodes.flatMap((node) => [...handWritten(p, node.name), ...strays(p, node)])
  return [...perNode, ...userTimers(p), ...cronLines(p, nodes)]
}

function handWritten(p: Paths, node: string): Legacy[] {
  const dirs = [p.unitDir, `${p.root}/lib/systemd/system`, `${p.root}/usr/local/lib/systemd/system`]
  for (const unit of [`chromebox-watchdog-${node}.timer`, `chromebox-watchdog-${node}.service`]) {
    const dir = dirs.find((d) => existsSync(join(d, unit)))
    if (dir === undefined) continue
    const remove = `systemctl disable --now ${unit} && rm ${dir}/chromebox-watchdog-${node}.*`
    return [{ scope: node, what: unit, remove, armed: unit.endsWith('.timer') }]
  }
  return []
}

/** User units of any user: they stop at logout without linger, and start again with it. */
function userTimers(p: Paths): Legacy[] {
  const timers = (dir: string) =>
    namesIn(dir).filter((unit) => /^(agent-health|cdp-relay-watchdog)[^/]*\.timer$/.test(unit))
  const legacy = (what: string, remove: string): Legacy => ({ scope: 'fleet', what, remove, armed: true })
  const homes = [`${p.root}/root`, ...namesIn(`${p.root}/home`).map((h) => `${p.root}/home/${h}`)]
  const own = homes.flatMap((home) => {
    const user = basename(home)
    return timers(`${home}/.config/systemd/user`).map((unit) =>
      legacy(`user ${user}'s ${unit}`, `systemctl --user -M ${user}@ disable --now ${unit}`),
    )
  })
  const shared = timers(`${p.root}/etc/systemd/user`).map((unit) =>
    legacy(`the user unit ${unit}`, `systemctl --global disable ${unit} && rm /etc/systemd/user/${unit}`),
  )
  return [...own, ...shared]
}

function cronLines(p: Paths, nodes: readonly Node[]): Legacy[] {
  const dirs = ['/etc/cron.d', '/var/spool/cron/crontabs'].map((d) => `${p.root}${d}`)
  const files = [`${p.root}/etc/crontab`, ...dirs.flatMap((d) => namesIn(d).map((f) => join(d, f)))]
  const found: Legacy[] = []
  for (const file of files) {
    for (const line of (textOf(file) ?? '').split('\n')) {
      if (/^\s*#/.test(line)) continue
      const program = /(chromebox-watchdog|cdp-relay-watchdog|agent-health)/.exec(line)?.[1]
      if (program === undefined) continue
      const words = line.split(/[\s/'"=]+/)
      const node = nodes.find((n) => words.includes(n.name))?.name
      const scope = program === 'chromebox-watchdog' ? node : 'fleet'
      if (scope === undefined) continue
      found.push({ scope, what: `a ${program} line in ${file}`, remove: `editor ${file}`, armed: true })
    }
  }
  return found
}

function strays(p: Paths, node: Node): Legacy[] {
  const netns = lookNetns(p, node.netns)
  if (!netns.seen || !netns.value.isNamespace) return []
  return [...strayBrowser(p, node, netns.value.inode), ...strayRelay(p, node)]
}

/** A browser on the node's port or profile that systemd did not start as the node's unit. */
function strayBrowser(p: Paths, node: Node, netns: number | undefined): Legacy[] {
  const marks = [`--remote-debugging-port=${node.cdpPort}`, `--user-data-dir=/var/lib/chromebox/${node.name}`]
  const found: Legacy[] = []
  for (const pid of attempt(() => listPids(p.proc)) ?? []) {
    const argv = readArgv(p.proc, pid)
    if (!argv.slice(1).some((a) => marks.includes(a)) || argv.some((a) => a.startsWith('--type='))) continue
    if (!/chrom/.test(argv[0] ?? '') || runsIn(p, pid, `chromebox@${node.name}.service`)) continue
    // The same port in another namespace is another node's, or nobody's, business.
    if (namespaceOf(p.proc, pid) !== netns) continue
    const what = `a browser outside chromebox@${node.name}.service (pid ${pid}, ${clean(argv[0] ?? '', 60)})`
    found.push({ scope: node.name, what, remove: `kill ${pid}`, armed: false })
  }
  return found
}

function strayRelay(p: Paths, node: Node): Legacy[] {
  const listeners = listenersIn(p, node.netns, node.cdpPort, node.peer)
  if (!listeners.seen) return []
  return listeners.value.flatMap(({ pid }): Legacy[] => {
    // Our socket belongs to systemd itself.
    if (pid === undefined || pid === 1 || runsIn(p, pid, `cdp-relay@${node.name}.service`)) return []
    const program = clean(readArgv(p.proc, pid)[0] ?? '?', 60)
    const what = `a relay outside cdp-relay@${node.name} (pid ${pid}, ${program})`
    return [{ scope: node.name, what, remove: `kill ${pid}`, armed: false }]
  })
}
