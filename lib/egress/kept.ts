import { join } from 'node:path'
import type { Paths } from '../base/paths.ts'
import { readState, writeState } from '../store/state.ts'

/** The latest handshake a restart threw away: without it a clock that went back looks like a peer that is gone. */
interface Kept {
  readonly handshakeMs: number
}

function keptPath(p: Paths, node: string): string {
  return join(p.state, 'egress', `${node}.json`)
}

function parseKept(value: unknown): Kept {
  const handshakeMs = (value as Partial<Kept> | null)?.handshakeMs
  if (typeof handshakeMs !== 'number' || !Number.isFinite(handshakeMs)) throw new Error('no handshakeMs')
  return { handshakeMs }
}

/** Wall-clock milliseconds; undefined when nothing was kept or it cannot be read, which only loses a hint. */
export function keptHandshake(p: Paths, node: string): number | undefined {
  try {
    const kept = readState(keptPath(p, node), parseKept, () => ({ handshakeMs: 0 })).value.handshakeMs
    return kept > 0 ? kept : undefined
  } catch {
    return undefined
  }
}

/** Never throws: a full disk must not keep a tunnel from being restarted. */
export function keepHandshake(p: Paths, node: string, handshakeMs: number): void {
  try {
    writeState(keptPath(p, node), { handshakeMs })
  } catch {}
}
