import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { after, before, beforeEach, test } from 'node:test'
import { inPage } from '../kit/lab/browser.ts'
import { FAST, guardBrowser, tunnelNode } from '../kit/lab/egress.ts'
import { DNS, HOST_DNS, SITE, wgServer } from '../kit/lab/wg-server.ts'
import { browser, ok, stopTimers, until, untilTitled, writeConfig } from '../kit/lab.ts'

// The host replaces /etc/resolv.conf as DHCP clients and editors do, by rename, below six browsers that run. What they
// then ask is captured inside each namespace, on its own interfaces.
const NODES = ['muse', 'pip', 'opm', 'def', 'dev', 'n646']
const HOST = '/etc/resolv.conf'
/** Answers too, through every tunnel: whoever reads the host's file then is served, and is seen in the capture. */
const OTHER = HOST_DNS

const captures = new Map<string, { child: ChildProcess; text: string }>()
let original = ''

/** Everything that goes to port 53 in the node's namespace, by UDP or TCP, from now on. */
async function capture(node: string): Promise<void> {
  const argv = ['-i', 'any', '-nn', '-l', '-t', '--immediate-mode', 'dst port 53']
  const child = spawn('ip', ['netns', 'exec', `warp-${node}`, 'tcpdump', ...argv], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const seen = { child, text: '' }
  let heard = ''
  child.stdout.on('data', (data) => {
    seen.text += data
  })
  child.stderr.on('data', (data) => {
    heard += data
  })
  captures.set(node, seen)
  await until('tcpdump listens', () => heard.includes('listening on any'))
}

before(async () => {
  const server = await wgServer()
  writeConfig({ ...FAST, NETVM_EGRESS_URLS: `http://${SITE}/` })
  original = readFileSync(HOST, 'utf8')
  for (const node of NODES) {
    server.conf(node)
    tunnelNode(node, server.url)
    stopTimers(node)
  }
  for (const node of NODES) {
    await untilTitled(node)
    await capture(node)
  }
})

after(() => {
  for (const { child } of captures.values()) child.kill('SIGKILL')
})

beforeEach(() => byRename(original))

/** Puts a new file in the place of the host's, as whoever does it well does it. */
function byRename(text: string): void {
  writeFileSync(`${HOST}.new`, text)
  renameSync(`${HOST}.new`, HOST)
}

let count = 0
/** The addresses that the browser asked for a name that nobody asked for before. */
async function asked(node: string): Promise<string[]> {
  const name = `ask${++count}-${node}.lab`
  const seen = captures.get(node)
  // Resolved when the site has answered, or when nothing more comes of it.
  await inPage(node, `fetch('http://${name}/', { mode: 'no-cors' }).then(() => 1, () => 0)`)
  await until(`${name} in the capture`, () => seen?.text.includes(` ${name}. `))
  const lines = (seen?.text ?? '').split('\n').filter((line) => line.includes(` ${name}. `))
  return [...new Set(lines.map((line) => /> ([\d.:a-f]+)\.53: /.exec(line)?.[1] ?? line))]
}

/** What lies on the browser's /etc/resolv.conf, as the kernel has it. */
function mounted(node: string): string {
  const lines = readFileSync(`/proc/${browser(node)?.pid}/mountinfo`, 'utf8').split('\n')
  const found = lines.map((line) => line.split(' ')).filter((field) => field[4] === HOST)
  return found.map((field) => field[3]).join(' ')
}

/** The node's browser has and asks the resolver of its namespace, and no other. */
async function assertOwn(node: string): Promise<void> {
  const own = `/etc/netns/warp-${node}/resolv.conf`
  assert.deepEqual(await asked(node), [DNS], node)
  assert.equal(mounted(node), own)
  const read = ok(['nsenter', '-t', String(browser(node)?.pid), '-m', 'cat', HOST])
  assert.equal(`${read}\n`, readFileSync(own, 'utf8'))
}

test('the host replaces its resolv.conf twice by rename: every browser goes on with its own', async () => {
  const same = NODES.map(guardBrowser)
  for (const node of NODES) await assertOwn(node)
  byRename(original)
  for (const node of NODES) await assertOwn(node)
  byRename(`nameserver ${OTHER}\n`)
  for (const node of NODES) await assertOwn(node)
  for (const check of same) check()
})

test('a dangling link when the browser starts: it starts, and nothing is made at the end of the link', async () => {
  const target = '/run/lab-resolve/stub-resolv.conf'
  mkdirSync('/run/lab-resolve', { recursive: true })
  rmSync(HOST)
  symlinkSync(`..${target}`, HOST)
  ok(['systemctl', 'restart', 'chromebox@muse.service'])
  await untilTitled('muse')
  assert.equal(existsSync(target), false)
  assert.equal(readlinkSync(HOST), `..${target}`)
  await assertOwn('muse')
  // Its resolver comes later, and is the host's alone.
  writeFileSync(target, `nameserver ${OTHER}\n`)
  await assertOwn('muse')
  byRename(original)
  assert.equal(lstatSync(HOST).isFile(), true)
  await assertOwn('muse')
})

test('no resolv.conf at all when the browser starts: it starts, and none is made', async () => {
  rmSync(HOST)
  ok(['systemctl', 'restart', 'chromebox@muse.service'])
  await untilTitled('muse')
  assert.equal(existsSync(HOST), false)
  byRename(`nameserver ${OTHER}\n`)
  await assertOwn('muse')
})
