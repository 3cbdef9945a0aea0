import { readFileSync } from 'node:fs'
import { ConfigError } from './errors.ts'
import { shellWord } from './os-error.ts'
import type { Paths } from './paths.ts'
import { clean, hasControl } from './text.ts'

const DAY = 86_400

/** A number of the file: its key, its default and its bounds, in the unit of the file. */
interface NumberSpec {
  readonly key: string
  readonly kind: 'seconds' | 'count'
  readonly value: number
  readonly min: number
  readonly max: number
}

const seconds = (key: string, value: number, min: number, max: number): NumberSpec => {
  return { key, kind: 'seconds', value, min, max }
}
const count = (key: string, value: number, max: number): NumberSpec => {
  return { key, kind: 'count', value, min: 1, max }
}

/**
 * The numbers of netvm.env. Upper bounds keep a run below its unit's start timeout or catch a value typed
 * in milliseconds; a zero is allowed where it means "do not wait".
 */
const NUMBERS = {
  freshBrowserMs: seconds('NETVM_FRESH_BROWSER', 120, 0, 3600),
  probeDeadlineMs: seconds('NETVM_PROBE_DEADLINE', 5, 0.1, 60),
  innerDeadlineMs: seconds('NETVM_INNER_DEADLINE', 2, 0.1, 60),
  confirmDelayMs: seconds('NETVM_CONFIRM_DELAY', 3, 0, 60),
  relaunchChecks: count('NETVM_RELAUNCH_CHECKS', 4, 100),
  relaunchIntervalMs: seconds('NETVM_RELAUNCH_INTERVAL', 15, 0.1, 60),
  stopGraceMs: seconds('NETVM_STOP_GRACE', 10, 0, 60),
  backoffBaseMs: seconds('NETVM_BACKOFF_BASE', 120, 0, DAY),
  backoffMaxMs: seconds('NETVM_BACKOFF_MAX', 1800, 0, DAY),
  holdAfter: count('NETVM_HOLD_AFTER', 5, 1000),
  halfOpenMs: seconds('NETVM_HALF_OPEN', 1800, 0, DAY),
  tunnelVerifyMs: seconds('NETVM_TUNNEL_VERIFY', 20, 0.1, 60),
  apiDeadlineMs: seconds('NETVM_API_DEADLINE', 10, 0.1, 60),
  apiStrikes: count('NETVM_API_STRIKES', 2, 1000),
  futileLimit: count('NETVM_FUTILE_LIMIT', 3, 1000),
  circuitCooldownMs: seconds('NETVM_CIRCUIT_COOLDOWN', 1800, 0, DAY),
  pageRepeatMs: seconds('NETVM_PAGE_REPEAT', 14_400, 1, 30 * DAY),
}

type NumberField = keyof typeof NUMBERS
const FIELDS = Object.keys(NUMBERS) as NumberField[]

/** Policy numbers of this host. Durations are milliseconds here and seconds in the file. */
export interface Config extends Record<NumberField, number> {
  registry: string
  egressUrls: string[]
}

export const DEFAULTS: Readonly<Config> = {
  registry: '/etc/netvm/NODES.md',
  // Two operators, one by address and one by name: a broken resolver or one operator's outage is not "down".
  egressUrls: ['http://1.1.1.1/cdn-cgi/trace', 'http://connectivity-check.ubuntu.com/'],
  ...(Object.fromEntries(
    FIELDS.map((field) => [field, inUnit(NUMBERS[field], NUMBERS[field].value)]),
  ) as Record<NumberField, number>),
}

function inUnit({ kind }: NumberSpec, value: number): number {
  return kind === 'count' ? value : Math.round(value * 1000)
}

const KEYS: ReadonlyMap<string, keyof Config> = new Map<string, keyof Config>([
  ['NETVM_REGISTRY', 'registry'],
  ['NETVM_EGRESS_URLS', 'egressUrls'],
  ...FIELDS.map((field) => [NUMBERS[field].key, field] as const),
])

/** Every key netvm.env may hold. */
export const CONFIG_KEYS: readonly string[] = [...KEYS.keys()]

/**
 * Reads netvm.env. NETVM_* in the environment do not count: a unit and a manual run see the same.
 * @throws ConfigError naming every problem with its line; also when the file is there and cannot be read.
 */
export function loadConfig(p: Paths): Config {
  let text: string
  try {
    text = readFileSync(p.configFile, 'utf8')
  } catch (err) {
    const code = (err as NodeJS.ErrnoException).code
    if (code === 'ENOENT') return withRoot(p, { ...DEFAULTS, egressUrls: [...DEFAULTS.egressUrls] })
    throw new ConfigError(`cannot read ${p.configFile}: ${code}`, `ls -ld ${shellWord(p.configFile)}`, err)
  }
  return withRoot(p, parseConfig(text, p.configFile))
}

/** Under a test root the default registry is the root's, not the host's. */
function withRoot(p: Paths, config: Config): Config {
  return config.registry === DEFAULTS.registry ? { ...config, registry: p.root + config.registry } : config
}

/**
 * @param text `KEY=VALUE` lines as systemd's EnvironmentFile= takes them: blank lines, `#` and `;` comments,
 *   and a value in single or double quotes. Continuation lines are refused.
 * @param file named in errors
 * @throws ConfigError with all problems, each with its line
 */
export function parseConfig(text: string, file: string): Config {
  const config: Config = { ...DEFAULTS, egressUrls: [...DEFAULTS.egressUrls] }
  const problems: string[] = []
  const seen = new Map<string, number>()
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\n|\r/)
  for (const [i, raw] of lines.entries()) {
    const line = raw.trim()
    if (line === '' || line.startsWith('#') || line.startsWith(';')) continue
    const problem = takeLine(config, seen, line, i + 1)
    if (problem !== undefined) problems.push(`line ${i + 1}: ${problem}`)
  }
  if (problems.length === 0) problems.push(...contradictions(config, seen))
  if (problems.length > 0)
    throw new ConfigError(`${file}: ${problems.join('; ')}`, `editor ${shellWord(file)}`)
  return config
}

function takeLine(config: Config, seen: Map<string, number>, line: string, at: number): string | undefined {
  const eq = line.indexOf('=')
  if (eq === -1) return `"${clean(line, 60)}" is not KEY=VALUE`
  const key = line.slice(0, eq).trim()
  const field = KEYS.get(key)
  if (field === undefined) return `unknown key ${clean(key, 60)}`
  const before = seen.get(key)
  if (before !== undefined) return `duplicate key ${key} (also on line ${before})`
  seen.set(key, at)
  const value = unquote(line.slice(eq + 1).trim())
  if (value === undefined) return `${key}: the quotes do not match`
  if (hasControl(value) || value.endsWith('\\')) return `${key}: control character or continuation line`
  const problem = setValue(config, field, value)
  return problem === undefined ? undefined : `${key}=${clean(value, 60)}: ${problem}`
}

/** The value without its quotes; undefined when they do not match. */
function unquote(v: string): string | undefined {
  const q = v[0]
  if (q !== '"' && q !== "'") return /["']/.test(v) ? undefined : v
  const inner = v.slice(1, -1)
  return v.length >= 2 && v.endsWith(q) && !inner.includes(q) ? inner : undefined
}

function setValue(config: Config, field: keyof Config, value: string): string | undefined {
  if (field === 'registry') {
    if (!value.startsWith('/')) return 'must be an absolute path'
    config.registry = value
    return undefined
  }
  if (field === 'egressUrls') {
    const urls = value.split(/[\s,]+/).filter((u) => u !== '')
    const bad = urls.find((u) => !isHttpUrl(u))
    if (bad !== undefined) return `"${clean(bad, 60)}" is not an http or https URL`
    config.egressUrls = urls
    return undefined
  }
  const spec = NUMBERS[field]
  const pattern = spec.kind === 'count' ? /^\d{1,9}$/ : /^\d{1,9}(\.\d{1,3})?$/
  const v = pattern.test(value) ? Number(value) : Number.NaN
  if (!(v >= spec.min && v <= spec.max))
    return `must be ${spec.min} to ${spec.max}${spec.kind === 'count' ? '' : ' seconds'}`
  config[field] = inUnit(spec, v)
  return undefined
}

/**
 * Values that are fine alone and not together. When only one of a pair was set, the other's default
 * follows it: who shortens one number should not have to know of a second.
 */
function contradictions(c: Config, seen: ReadonlyMap<string, number>): string[] {
  const out: string[] = []
  const order = (low: NumberField, high: NumberField) => {
    if (c[low] <= c[high]) return
    const [lowKey, highKey] = [NUMBERS[low].key, NUMBERS[high].key]
    const [lowAt, highAt] = [seen.get(lowKey), seen.get(highKey)]
    if (lowAt === undefined) c[low] = c[high]
    else if (highAt === undefined) c[high] = c[low]
    else out.push(`line ${Math.max(lowAt, highAt)}: ${lowKey} is longer than ${highKey}`)
  }
  order('innerDeadlineMs', 'probeDeadlineMs')
  order('backoffBaseMs', 'backoffMaxMs')
  return out
}

/** Absolute http or https URL without whitespace, control characters or quotes: safe in an env file. */
export function isHttpUrl(u: string): boolean {
  if (!/^https?:\/\/[^\s'"]+$/i.test(u) || hasControl(u)) return false
  return URL.canParse(u)
}
