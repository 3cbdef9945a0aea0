import { performance } from 'node:perf_hooks'
import {
  browser,
  browserAgeMs,
  cadence,
  cursor,
  logBytes,
  nodeUp,
  ok,
  receipt,
  said,
  sh,
  titles,
  until,
  untilTitled,
  writeConfig,
} from '../../../tests/kit/lab.ts'
import { act, curtain, say } from './stage.ts'
import { tunnelAct, tunnelReady } from './tunnel-act.ts'

const NODE = 'muse'
const UNIT = `chromebox-watchdog@${NODE}.service`

/** The first line of `text` that matches, or an error that shows the whole text. */
function line(text: string, wanted: RegExp): string {
  const found = text.split('\n').find((one) => wanted.test(one))
  if (found === undefined) throw new Error(`no line ${wanted} in:\n${text}`)
  return found
}

async function broken(wanted: RegExp, breakIt: () => void): Promise<{ seconds: number; proof: string }> {
  const before = browser(NODE)
  const position = cursor()
  const begun = performance.now()
  breakIt()
  await until(
    'another browser',
    () => browser(NODE) !== undefined && browser(NODE)?.pid !== before?.pid,
    60_000,
  )
  await untilTitled(NODE)
  const seconds = (performance.now() - begun) / 1000
  const text = await until(
    'the journal reports it',
    () => wanted.test(said(position, UNIT)) && said(position, UNIT),
    60_000,
  )
  return { seconds, proof: line(text, wanted) }
}

const fast = {
  NETVM_FRESH_BROWSER: 4,
  NETVM_CONFIRM_DELAY: 1,
  NETVM_PROBE_DEADLINE: 3,
  NETVM_TUNNEL_VERIFY: 6,
}
const site = await tunnelReady(NODE)
writeConfig({ ...fast, NETVM_EGRESS_URLS: site.egressUrl })

await act('A node comes up: namespace, tunnel, Chromium, relay, timers', async () => {
  const printed = nodeUp(NODE, { url: site.url, title: site.title, args: ['--port', '9410'] })
  for (const one of printed.split('\n')) say(`  ${one}`)
  await untilTitled(NODE, site.title)
  cadence(`chromebox-watchdog@${NODE}.timer`, 5)
  cadence('cdp-relay-watchdog.timer', 5)
  await until(
    'the first receipt',
    () => receipt('chromebox-watchdog', NODE)?.verdict.state === 'healthy',
    30_000,
  )
  return { proof: `titles in its browser: ${JSON.stringify(titles(NODE))}` }
})

await act('A healthy node is watched in silence', async () => {
  const bytes = logBytes('chromebox-watchdog')
  const position = cursor()
  const first = receipt('chromebox-watchdog', NODE)?.at.bootMs ?? 0
  await until(
    'three more looks',
    () => (receipt('chromebox-watchdog', NODE)?.at.bootMs ?? 0) > first + 10_000,
    40_000,
  )
  const words = said(position, UNIT)
  if (words !== '' || logBytes('chromebox-watchdog') !== bytes) throw new Error(`it spoke: ${words}`)
  return { proof: 'at least two runs, 0 bytes in the log, 0 lines in the journal' }
})

await act('The browser is killed with SIGKILL', () =>
  broken(/\{relaunch-ok\}/, () => process.kill(browser(NODE)?.pid ?? Number.NaN, 'SIGKILL')),
)

await act('The browser freezes (SIGSTOP): its port accepts and never answers', async () => {
  await until(
    'the browser is past its guard',
    () => browserAgeMs(NODE) > fast.NETVM_FRESH_BROWSER * 1000 + 500,
    20_000,
  )
  return broken(/\{relaunch-ok\}/, () => process.kill(browser(NODE)?.pid ?? Number.NaN, 'SIGSTOP'))
})

await act('The relay is stopped', async () => {
  const before = browser(NODE)
  const position = cursor()
  const begun = performance.now()
  ok(['systemctl', 'stop', `cdp-relay@${NODE}.socket`, `cdp-relay@${NODE}.service`])
  const text = await until(
    'the relay is back',
    () =>
      /\{relay-restart-ok\}/.test(said(position, 'cdp-relay-watchdog.service')) &&
      said(position, 'cdp-relay-watchdog.service'),
    60_000,
  )
  const seconds = (performance.now() - begun) / 1000
  if (browser(NODE)?.pid !== before?.pid) throw new Error('a relay fault restarted the browser')
  return { seconds, proof: `${line(text, /\{relay-restart-ok\}/)} (browser pid ${before?.pid} untouched)` }
})

await act('The tunnel is cut at its far end, and restored', () => tunnelAct(NODE, site))

await act('A shell that cannot see tells the truth', async () => {
  // The API of a browser that was started again has to be seen before anybody may call its node active.
  sh(['systemctl', 'start', 'agent-health.service'], { deadlineMs: 120_000 })
  const blind = ['unshare', '-n', '-p', '-f', '--mount-proc', 'box', 'fleet', 'status', NODE]
  const shown = await until(
    'a blind shell shows it as evidence',
    () => /^.*ACTIVE \[\*\].*$/m.exec(sh(blind, { deadlineMs: 20_000 }).stdout)?.[0],
    60_000,
  )
  return { proof: shown.trim() }
})

await act('A pause keeps every hand off', async () => {
  ok(['box', 'node', 'pause', NODE, '--for', '5m', '--reason', 'the story'])
  process.kill(browser(NODE)?.pid ?? Number.NaN, 'SIGKILL')
  const since = receipt('chromebox-watchdog', NODE)?.at.bootMs ?? 0
  await until(
    'two looks under the pause',
    () => (receipt('chromebox-watchdog', NODE)?.at.bootMs ?? 0) > since + 5000,
    40_000,
  )
  if (browser(NODE) !== undefined) throw new Error('somebody acted under the pause')
  const shown = line(sh(['box', 'fleet', 'status', NODE]).stdout, /PAUSED/)
  ok(['box', 'node', 'resume', NODE])
  await untilTitled(NODE, site.title, 60_000)
  return { proof: `${shown.trim()}; resumed, and the browser is back` }
})

await act('The node is taken down', async () => {
  ok(['netvm-node-down', NODE])
  const left = sh(['ip', 'netns', 'list']).stdout + ok(['ip', '-br', 'link', 'show', 'type', 'veth'])
  if (left.includes(`warp-${NODE}`) || browser(NODE) !== undefined) throw new Error(`left behind: ${left}`)
  return { proof: 'no namespace, no veth, no process is left' }
})
curtain()
