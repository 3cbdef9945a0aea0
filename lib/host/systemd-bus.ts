import { monotonicMs } from '../base/clock.ts'
import type { Look } from '../base/types.ts'
import { type Ask, talk } from './dbus.ts'
import type { UnitShow } from './systemd.ts'

const SYSTEMD = 'org.freedesktop.systemd1'
const BUS = 'org.freedesktop.DBus'

/** By unit. */
export type Shown = ReadonlyMap<string, UnitShow>

/** What `unit_dbus_path_from_name` makes of a unit's name: letters and digits stay, unless a digit comes first. */
function pathOf(unit: string): string {
  const hex = (c: string) => `_${c.charCodeAt(0).toString(16).padStart(2, '0')}`
  return `/org/freedesktop/systemd1/unit/${unit.replace(/^\d|[^A-Za-z0-9]/g, hex)}`
}

/** Which interface has a property: the one of all units, or that of the unit's kind. */
function ifaceOf(unit: string, property: string): string {
  if (/^(LoadState|UnitFileState|SubState|Condition|ActiveEnter|InactiveEnter)/.test(property))
    return `${SYSTEMD}.Unit`
  const kind = unit.slice(unit.lastIndexOf('.') + 1)
  return `${SYSTEMD}.${kind.charAt(0).toUpperCase()}${kind.slice(1)}`
}

/** A property as `systemctl show --timestamp=us+utc` prints it, so that both are read by the same rules. Pure. */
export function printed(property: string, value: string | number): string {
  if (typeof value === 'string') return value
  if (property.endsWith('Timestamp') && value > 0)
    return `@ ${new Date(value / 1000).toISOString().replace('T', ' ').replace('Z', ' UTC')}`
  // The greatest number there is stands for "never".
  if (property.startsWith('NextElapse')) return value >= 2 ** 63 ? 'infinity' : `${value}us`
  return String(value)
}

/** The units that systemd has in memory and whose names match. Of any other it has to read the files to say anything. */
async function list(ask: Ask, patterns: readonly string[]): Promise<Map<string, UnitShow>> {
  const path = '/org/freedesktop/systemd1'
  const [iface, member] = [`${SYSTEMD}.Manager`, 'ListUnitsByPatterns']
  const [values] = await ask([{ to: SYSTEMD, path, iface, member, args: [[], patterns] }])
  const found = new Map<string, UnitShow>()
  if (values === undefined) return found
  values.number()
  while (values.align(8).more) {
    const [unit, , LoadState, ActiveState, SubState] = Array.from({ length: 7 }, () => values.string())
    // Its job.
    values.number()
    values.string()
    values.string()
    found.set(unit ?? '', { LoadState, ActiveState, SubState } as UnitShow)
  }
  return found
}

/**
 * Lists units, and gets of each the properties that `wanted` names; of a unit that is not listed too.
 * @param root where /run is. A root shell asks PID 1 itself, as systemctl does: it answers without the bus's daemon.
 */
export async function lookAtListed(
  root: string,
  patterns: readonly string[],
  wanted: (listed: Shown) => Iterable<readonly [unit: string, properties: readonly string[]]>,
  deadlineMs: number,
): Promise<Look<Shown>> {
  const questions = async (ask: Ask): Promise<Shown> => {
    const units = await list(ask, patterns)
    const get = async ([unit, properties]: readonly [string, readonly string[]]) => {
      const base = { to: SYSTEMD, path: pathOf(unit), iface: `${BUS}.Properties`, member: 'Get' }
      const values = await ask(properties.map((p) => ({ ...base, args: [ifaceOf(unit, p), p] })))
      const read = properties.map((p, i) => [p, printed(p, values[i]?.variant() ?? '')])
      units.set(unit, { ...units.get(unit), ...Object.fromEntries(read) })
    }
    await Promise.all([...wanted(new Map(units))].map(get))
    return units
  }
  const onBus = (ask: Ask): Promise<Shown> => {
    // The bus takes what comes after it without waiting for its answer.
    ask([{ to: BUS, path: '/org/freedesktop/DBus', iface: BUS, member: 'Hello', args: [] }])
    return questions(ask)
  }
  const until = monotonicMs() + deadlineMs
  const why: string[] = []
  for (const [socket, talks] of [
    ['systemd/private', questions],
    ['dbus/system_bus_socket', onBus],
  ] as const) {
    const leftMs = until - monotonicMs()
    // A timer may be early by one.
    if (leftMs < 2) break
    try {
      return { seen: true, value: await talk(`${root}/run/${socket}`, leftMs, talks) }
    } catch (err) {
      why.push((err as Error).message)
    }
  }
  return { seen: false, why: why.join('; ') }
}
