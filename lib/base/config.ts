import { readFileSync } from 'node:fs'
import { ConfigError } from './errors.ts'
import { shellWord } from './os-error.ts'
import type { Paths } from './paths.ts'
import { clean, hasControl } from './text.ts'

/** Policy numbers of this host. Durations are milliseconds here and seconds in the file. */
export interface Config {
  registry: string
  freshBrowserMs: number
  probeDeadlineMs: number
  innerDeadlineMs: number
  confirmDelayMs: number
  relaunchChecks: number
  relaunchIntervalMs: number
  stopGraceMs: number
  backoffBaseMs: number
  backoffMaxMs: number
  holdAfter: number
  halfOpenMs: number
  tunnelVerifyMs: number
  egressUrls: string[]
  apiDeadlineMs: number
  apiStrikes: number
  futileLimit: number
  circuitCooldownMs: number
  pageRepeatMs: number
}

export const DEFAULTS: Readonly<Config> = {
  registry: '/etc/netvm/NODES.md',
  freshBrowserMs: 120_000,
  probeDeadlineMs: 5_000,
  innerDeadlineMs: 2_000,
  confirmDelayMs: 3_000,
  relaunchChecks: 4,
  relaunchIntervalMs: 15_000,
  stopGraceMs: 10_000,
  backoffBaseMs: 120_000,
  backoffMaxMs: 1_800_000,
  holdAfter: 5,
  halfOpenMs: 1_800_000,
  tunnelVerifyMs: 20_000,
  // Two operators, one by address and one by name: a broken resolver or one operator's outage is not "down".
  egressUrls: ['http://1.1.1.1/cdn-cgi/trace', 'http://connectivity-check.ubuntu.com/'],
  apiDeadlineMs: 10_000,
  apiStrikes: 2,
  futileLimit: 3,
  circuitCooldownMs: 1_800_000,
  pageRepeatMs: 14_400_000,
}

type NumberField = Exclude<keyof Config, 'registry' | 'egressUrls'>
type Spec =
  | { kind: 'path'; field: 'registry' }
  | { kind: 'urls'; field: 'egressUrls' }
  | { kind: 'seconds' | 'count'; field: NumberField; min: number; max: number }

const DAY = 86_400
const s = (field: NumberField, min: number, max: number): Spec => ({ kind: 'seconds', field, min, max })
const n = (field: NumberField, min: number, max: number): Spec => ({ kind: 'count', field, min, max })

/**
 * The keys of netvm.env. Upper bounds keep a run below its unit's start timeout or catch a value typed
 * in milliseconds; a zero is allowed where it means "do not wait".
 */
const KEYS: Readonly<Record<string, Spec>> = {
  NETVM_REGISTRY: { kind: 'path', field: 'registry' },
  NETVM_FRESH_BROWSER: s('freshBrowserMs', 0, 3600),
  NETVM_PROBE_DEADLINE: s('probeDeadlineMs', 0.1, 60),
  NETVM_INNER_DEADLINE: s('innerDeadlineMs', 0.1, 60),
  NETVM_CONFIRM_DELAY: s('confirmDelayMs', 0, 60),
  NETVM_RELAUNCH_CHECKS: n('relaunchChecks', 1, 100),
  NETVM_RELAUNCH_INTERVAL: s('relaunchIntervalMs', 0.1, 60),
  NETVM_STOP_GRACE: s('stopGraceMs', 0, 60),
  NETVM_BACKOFF_BASE: s('backoffBaseMs', 0, DAY),
  NETVM_BACKOFF_MAX: s('backoffMaxMs', 0, DAY),
  NETVM_HOLD_AFTER: n('holdAfter', 1, 1000),
  NETVM_HALF_OPEN: s('halfOpenMs', 0, DAY),
  NETVM_TUNNEL_VERIFY: s('tunnelVerifyMs', 0.1, 60),
  NETVM_EGRESS_URLS: { kind: 'urls', field: 'egressUrls' },
  NETVM_API_DEADLINE: s('apiDeadlineMs', 0.1, 60),
  NETVM_API_STRIKES: n('apiStrikes', 1, 1000),
  NETVM_FUTILE_LIMIT: n('futileLimit', 1, 1000),
  NETVM_CIRCUIT_COOLDOWN: s('circuitCooldownMs', 0, DAY),
  NETVM_PAGE_REPEAT: s('pageRepeatMs', 1, 30 * DAY),
}

/** Every key netvm.env may hold. */
export const CONFIG_KEYS: readonly string[] = Object.keys(KEYS)

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
  const spec = Object.hasOwn(KEYS, key) ? KEYS[key] : undefined
  if (spec === undefined) return `unknown key ${clean(key, 60)}`
  const before = seen.get(key)
  if (before !== undefined) return `duplicate key ${key} (also on line ${before})`
  seen.set(key, at)
  const value = unquote(line.slice(eq + 1).trim())
  if (value === undefined) return `${key}: the quotes do not match`
  if (hasControl(value) || value.endsWith('\\')) return `${key}: control character or continuation line`
  const problem = setValue(config, spec, value)
  return problem === undefined ? undefined : `${key}=${clean(value, 60)}: ${problem}`
}

/** The value without its quotes; undefined when they do not match. */
function unquote(v: string): string | undefined {
  const q = v[0]
  if (q !== '"' && q !== "'") return /["']/.test(v) ? undefined : v
  const inner = v.slice(1, -1)
  return v.length >= 2 && v.endsWith(q) && !inner.includes(q) ? inner : undefined
}

function setValue(config: Config, spec: Spec, value: string): string | undefined {
  switch (spec.kind) {
    case 'path':
      if (!value.startsWith('/')) return 'must be an absolute path'
      config.registry = value
      return undefined
    case 'urls': {
      const urls = value.split(/[\s,]+/).filter((u) => u !== '')
      const bad = urls.find((u) => !isHttpUrl(u))
      if (bad !== undefined) return `"${clean(bad, 60)}" is not an http or https URL`
      config.egressUrls = urls
      return undefined
    }
    default: {
      const pattern = spec.kind === 'count' ? /^\d{1,9}$/ : /^\d{1,9}(\.\d{1,3})?$/
      const unit = spec.kind === 'count' ? '' : ' seconds'
      const v = pattern.test(value) ? Number(value) : Number.NaN
      if (!(v >= spec.min && v <= spec.max)) return `must be ${spec.min} to ${spec.max}${unit}`
      config[spec.field] = spec.kind === 'count' ? v : Math.round(v * 1000)
      return undefined
    }
  }
}

/**
 * Values that are fine alone and not together. When only one of a pair was set, the other's default
 * follows it: who shortens one number should not have to know of a second.
 */
function contradictions(c: Config, seen: ReadonlyMap<string, number>): string[] {
  const out: string[] = []
  const order = (low: string, lowField: NumberField, high: string, highField: NumberField) => {
    if (c[lowField] <= c[highField]) return
    const lowAt = seen.get(low)
    const highAt = seen.get(high)
    if (lowAt === undefined) c[lowField] = c[highField]
    else if (highAt === undefined) c[highField] = c[lowField]
    else out.push(`line ${Math.max(lowAt, highAt)}: ${low} is longer than ${high}`)
  }
  order('NETVM_INNER_DEADLINE', 'innerDeadlineMs', 'NETVM_PROBE_DEADLINE', 'probeDeadlineMs')
  order('NETVM_BACKOFF_BASE', 'backoffBaseMs', 'NETVM_BACKOFF_MAX', 'backoffMaxMs')
  return out
}

/** Absolute http or https URL without whitespace, control characters or quotes: safe in an env file. */
export function isHttpUrl(u: string): boolean {
  if (!/^https?:\/\/[^\s'"]+$/i.test(u) || hasControl(u)) return false
  return URL.canParse(u)
}
