import type { Layer } from '../base/types.ts'

/**
 * What a code says about its node. `fault`: the layer fails. `unknown`: the layer could not be checked, which is not a
 * fault. `guard`: why nothing is done about a fault now. `repair`: how an action ended. `recovery`: a fault is over.
 * `notice`: says nothing about the node's health.
 */
export type Kind = 'fault' | 'unknown' | 'guard' | 'repair' | 'recovery' | 'notice'

/** What was done to a node, as its history names it. */
export type Repaired = 'relaunch' | 'tunnel restart' | 'relay restart' | 'browser restart (api)'

interface Entry<K extends Kind = Kind, T extends string = string> {
  readonly kind: K
  /** Absent where the code alone does not determine it: then the record beside it does (verdict, mark, cause). */
  readonly layer?: Layer
  /** `{name}` is a placeholder. Monitors and people search for these texts: record every change in the changelog. */
  readonly text: T
  /** Heading of RUNBOOK.md that explains it, character for character. */
  readonly heading: string
  /** Repairs only. */
  readonly action?: Repaired
  readonly helped?: boolean
}

type Made<K extends Kind> = <const T extends string>(
  layer: Layer | undefined,
  text: T,
  heading: string,
) => Entry<K, T>

const made =
  <K extends Kind>(kind: K): Made<K> =>
  (layer, text, heading) => ({ kind, ...(layer === undefined ? {} : { layer }), text, heading })

const fault = made('fault')
const unknown = made('unknown')
const guard = made('guard')
const recovery = made('recovery')
const notice = made('notice')

const repair = <const T extends string>(
  layer: Layer,
  action: Repaired,
  helped: boolean,
  text: T,
  heading: string,
): Entry<'repair', T> => ({ kind: 'repair', layer, action, helped, text, heading })

/** Headings of RUNBOOK.md that explain more than one code. */
const NETNS = '`netns warp-<node> missing`'
const VETH = '`FAIL_LOUD veth <if> has no <gw>/30`'
const PEER = '`veth <if> in warp-<node> has no <peer>/30`'
const EGRESS = '`egress down: …`'
const TUNNEL = '`tunnel restart OK`, `tunnel restart FAILED`'
const CDP = '`CDP unreachable on :<port>`, `port squatted: …`'
const PAGE = '`chat page "<title>" missing from target list`'
const RELAUNCH = '`relaunch OK after <s>s`, `relaunch FAILED — needs operator attention: <reason>`'
const HELD = '`HELD DOWN`'
const NO_START = '`not relaunched: …`, `the profile cannot be written: …`, `Chromium on disk changed …`'
const SILENT = '`relay on <peer>:<port> does not answer, …`'
const SOCKET =
  '`cdp-relay@<node>.socket is inactive`, `failed: systemd limit reached`, `listens in a deleted namespace`'
const UNIT = '`cdp-relay@<node>.socket listens on … instead of …`, `is masked by hand`'
const FOREIGN = '`foreign listener on <peer>:<port> …`, `relay on … instead of <peer>:<port>`'
const RELAY = '`relay restart OK`, `relay restart FAILED — needs operator attention`'
const API = '`api timeout`, `api http <code>`, `api unreachable: …`, `renderer not responding`'
const FUTILE = '`CRITICAL - still down after restart`'
const CIRCUIT = '`circuit open`'
const UNKNOWN = '`UNKNOWN`'
const OVER = '`egress works again`, `browser healthy again`, `recovered: …`'
const CORRUPT = '`state file was corrupt`, `the pause record was corrupt`'
const DISK = 'Disk full, read-only file system, file in place of a directory'
const PAUSE = '`paused by <who>`, `resumed by <who>`'

/**
 * Every code that a log line, journal entry, page, receipt or mark may carry. Programs decide on codes; the texts
 * are for people, and no program parses one.
 */
export const CODES = {
  'row-refused': fault(
    'registry',
    'row refused, node not supervised: registry line {line}{name}: {why}',
    '`row refused, node not supervised: …`',
  ),
  'config-refused': fault('registry', '{why}', 'Exit 78: the configuration or the registry is refused'),
  'config-recovered': recovery('registry', 'configuration and registry are readable again', OVER),
  'supervision-drift': fault('registry', '{what}', 'Drift: a timer is missing, disabled, or never elapses'),

  'netns-missing': fault('netns', 'netns {netns} missing', NETNS),
  'netns-unseen': unknown('netns', 'the network namespace is not visible: {why}', UNKNOWN),
  'netns-recovered': recovery('netns', 'netns {netns} exists again', OVER),
  'veth-missing': fault('netns', 'veth {veth} has no {gw}/30', VETH),
  'veth-no-address': fault('netns', 'veth {veth} has no {gw}/30', VETH),
  'veth-down': fault('netns', 'veth {veth} is down', VETH),
  'peer-missing': fault('netns', 'veth {veth} in {netns} has no {peer}/30', PEER),
  'peer-no-address': fault('netns', 'veth {veth} in {netns} has no {peer}/30', PEER),
  'peer-down': fault('netns', 'veth {veth} in {netns} is down', PEER),
  'relay-unreachable': fault('netns', '{why}', VETH),

  'egress-config': fault('egress', 'egress down: configuration refused: {why}', EGRESS),
  'egress-interface-missing': fault('egress', 'egress down: interface {wg} missing{more}', EGRESS),
  'egress-unit-inactive': fault('egress', 'egress down: {unit} is {state}', EGRESS),
  'egress-no-peers': fault('egress', 'egress down: interface {wg} has no peers', EGRESS),
  'egress-clock': fault(
    'egress',
    'egress down: clock went back, last handshake is {seconds} s in the future',
    EGRESS,
  ),
  'egress-no-handshake': fault('egress', 'egress down: no handshake ever{moved}', EGRESS),
  'egress-endpoint-moved': fault('egress', 'egress down: handshake {age} s ago, endpoint moved', EGRESS),
  'egress-peer-silent': fault('egress', 'egress down: handshake {age} s ago, peer silent', EGRESS),
  'egress-dns': fault(
    'egress',
    'egress down: handshake {age} s ago, names do not resolve through the tunnel',
    EGRESS,
  ),
  'egress-behind-peer': fault(
    'egress',
    'egress down: handshake {age} s ago, nothing answers behind the peer',
    EGRESS,
  ),
  'egress-no-answer': fault('egress', 'egress down: no probe answered', EGRESS),
  'egress-unseen': unknown('egress', 'egress unknown: {why}', UNKNOWN),
  'egress-below': unknown('egress', '{reason}; the tunnel below it: {egress}', UNKNOWN),
  'uplink-down': fault('egress', 'uplink down', '`uplink down`'),
  'tunnel-restart-ok': repair('egress', 'tunnel restart', true, 'tunnel restart OK after {took}', TUNNEL),
  'tunnel-restart-failed': repair('egress', 'tunnel restart', false, 'tunnel restart FAILED', TUNNEL),
  'tunnel-recovered': recovery('egress', 'egress works again', OVER),
  'uplink-recovered': recovery('egress', 'the uplink works again', OVER),

  'no-process': fault('process', 'no chromium process for profile', '`no chromium process for profile`'),
  'process-unseen': unknown('process', 'processes are not visible: {why}', UNKNOWN),
  'browser-not-asked': unknown('process', 'the browser was not probed', UNKNOWN),
  'profile-unwritable': fault('process', 'the profile cannot be written: {why}', NO_START),
  'program-changed': fault(
    'process',
    'Chromium on disk changed at {at}, every start since ended with {ended}',
    NO_START,
  ),
  'program-recovered': recovery('process', 'no node waits for another Chromium on disk', NO_START),
  'cdp-unreachable': fault('cdp', 'CDP unreachable on :{port}', CDP),
  'port-squatted': fault('cdp', "port squatted: :{port} answers but is not this node's browser", CDP),
  'cdp-refuses': fault('cdp', 'CDP on :{port} refuses to be asked: {why}', CDP),
  'browser-stopped': fault('cdp', 'the browser process is stopped (pid {pid})', CDP),
  'cdp-unseen': unknown('cdp', 'CDP on :{port} could not be probed: {why}', UNKNOWN),
  'page-missing': fault('page', 'chat page "{title}" missing from target list', PAGE),
  'no-pages': fault('page', 'chat page "{title}" missing from target list', PAGE),
  'error-page': fault('page', 'chat page "{title}" missing from target list', PAGE),
  'page-unseen': unknown('page', 'the target list could not be read: {why}', UNKNOWN),
  'page-doubtful': unknown(
    'page',
    "the page may be the browser's error page: {why}",
    "`the page may be the browser's error page: …`",
  ),
  'relaunch-ok': repair('process', 'relaunch', true, 'relaunch OK after {seconds}s', RELAUNCH),
  'relaunch-failed': repair(
    'process',
    'relaunch',
    false,
    'relaunch FAILED — needs operator attention: {reason}',
    RELAUNCH,
  ),
  'held-down': fault('process', 'HELD DOWN after {failures} failed relaunches: {reason}', HELD),
  'hold-closed': recovery('process', 'healthy again: hold-down closed', HELD),
  'browser-recovered': recovery('process', 'browser healthy again', OVER),
  released: notice('process', 'released by an operator: {what}', HELD),

  fresh: guard(undefined, 'skip kill: launched {seconds}s ago', '`skip kill: launched <n>s ago`'),
  squatted: guard('cdp', 'not relaunched: a relaunch would not free the port', CDP),
  refuses: guard('cdp', 'not relaunched: a relaunch would not change the configuration', CDP),
  'not-applied': guard('process', 'not relaunched: {what}', '`not relaunched: the row says …`'),
  'cannot-start': guard('process', 'not relaunched: {why}', NO_START),
  held: guard('process', 'HELD DOWN after {failures} failed relaunches, one attempt in {wait}', HELD),
  backoff: guard('process', 'backing off after {failed}, next attempt in {wait}', RELAUNCH),
  cautious: guard('process', 'state file was corrupt: no relaunch for {wait}', CORRUPT),
  'crash-loop': guard(
    'process',
    'crash loop: ended {times} times shortly after a relaunch, next attempt in {wait}',
    RELAUNCH,
  ),
  paused: guard(undefined, 'paused by {by}: {reason}', PAUSE),
  resumed: notice(undefined, 'resumed by {by}', PAUSE),

  'relay-silent': fault('relay', 'relay on {endpoint} does not answer, the browser behind it does', SILENT),
  'relay-down': fault('relay', '{socket} is {state}', SOCKET),
  'relay-start-limit': fault('relay', '{socket} failed: systemd limit reached ({limit})', SOCKET),
  'relay-stale-namespace': fault(
    'relay',
    '{socket} listens in a deleted namespace: nothing listens on {endpoint} in {netns}',
    SOCKET,
  ),
  'relay-masked': fault('relay', '{masked} masked by hand', UNIT),
  'relay-not-installed': fault('relay', '{socket} is {load}', UNIT),
  'relay-unit-address': fault('relay', '{socket} listens on {listen} instead of {endpoint}', UNIT),
  'relay-wrong-address': fault('relay', 'relay on {where} instead of {endpoint}', FOREIGN),
  'foreign-listener': fault('relay', 'foreign listener on {where}', FOREIGN),
  'foreign-kept': fault('relay', 'foreign listener on {where}, not removed automatically', FOREIGN),
  'foreign-wildcard-listener': fault(
    'relay',
    'relay cannot listen on {endpoint}: every address is taken by {where}, not removed automatically',
    '`relay cannot listen on <peer>:<port>: …`',
  ),
  'relay-not-asked': unknown(undefined, 'relay does not answer, cause unknown: {why}', SILENT),
  'browser-down': fault(
    'cdp',
    'browser down behind a working relay',
    '`browser down behind a working relay`',
  ),
  'browser-and-relay-down': fault(
    'cdp',
    'browser down, and its relay does not accept connections on {endpoint} (checked again when the browser answers)',
    '`browser down, and its relay does not accept connections on <peer>:<port>`',
  ),
  'listener-removed': notice('relay', '{what}', FOREIGN),
  'listener-kept': notice('relay', '{what}', FOREIGN),
  'relay-restart-ok': repair('relay', 'relay restart', true, 'relay restart OK after {took}', RELAY),
  'relay-restart-failed': repair(
    'relay',
    'relay restart',
    false,
    'relay restart FAILED — needs operator attention: {reason}',
    RELAY,
  ),
  'relay-backoff': guard(
    'relay',
    '{restarts} did not last, next attempt in {wait}',
    '`<n> restarts did not last, next attempt in <s>s`',
  ),
  'relay-recovered': recovery('relay', 'the relay answers again', OVER),

  'api-timeout': fault('api', 'api timeout', API),
  'api-http': fault('api', 'api http {status}', API),
  'api-unreachable': fault('api', 'api unreachable: {why}', API),
  'renderer-silent': fault('api', 'renderer not responding', API),
  'api-unseen': unknown(undefined, '{why}', UNKNOWN),
  'check-interrupted': unknown(undefined, '{why}', UNKNOWN),
  'browser-not-back': unknown('process', '{why}', FUTILE),
  'no-slot': unknown('cdp', '{why}', '`QueueTimeout` (exit 75)'),
  'api-restart-ok': repair(
    'api',
    'browser restart (api)',
    true,
    'browser restart OK after {took}: {detail}',
    FUTILE,
  ),
  'api-restart-futile': repair(
    'api',
    'browser restart (api)',
    false,
    'CRITICAL - still down after restart: {detail} ({count})',
    FUTILE,
  ),
  'circuit-open': fault('api', 'circuit open: {what}', CIRCUIT),
  'circuit-reopened': fault('api', 'circuit open again: {what}', CIRCUIT),
  'circuit-closed': recovery('api', 'circuit closed', CIRCUIT),
  'circuit-reset': notice(
    'api',
    'circuit closed by hand{early}; strikes and futile restarts cleared',
    CIRCUIT,
  ),
  'circuit-review': notice('api', "review the circuit breaker's settings: {what}", CIRCUIT),
  'api-recovered': recovery('api', 'the API answers again', OVER),

  'run-failed': unknown(undefined, '{why}', UNKNOWN),
  locked: unknown(undefined, '{why}', 'Exit 75: another run holds the lock'),
  'out-of-time': guard(undefined, '{why}', '`skip kill: launched <n>s ago`'),
  'state-corrupt': notice(undefined, 'state file was corrupt ({why}), kept as {kept}{more}', CORRUPT),
  'state-not-kept': notice(undefined, '{why}', DISK),
  'last-run-failed': fault(undefined, 'the last run found a fault and recorded no layer', UNKNOWN),
} as const satisfies Readonly<Record<string, Entry>>

export type Code = keyof typeof CODES

type Names<T> = T extends `${string}{${infer N}}${infer Rest}` ? N | Names<Rest> : never
/** The values that a code's text needs: none, or a record of them. */
export type Values<C extends Code> = [Names<(typeof CODES)[C]['text']>] extends [never]
  ? []
  : [Readonly<Record<Names<(typeof CODES)[C]['text']>, string | number>>]

/** The text of a code with its values filled in. Values are untrusted: `clean` what comes from outside before printing. */
export function text<C extends Code>(code: C, ...values: Values<C>): string {
  const given = (values[0] ?? {}) as Record<string, string | number>
  return CODES[code].text.replace(/\{(\w+)\}/g, (_, name: string) => String(given[name] ?? ''))
}

/** The table's entry for a code read from a file or a line; undefined for a code of another release. */
export function entryOf(code: string | undefined): Entry | undefined {
  return code !== undefined && Object.hasOwn(CODES, code) ? CODES[code as Code] : undefined
}
