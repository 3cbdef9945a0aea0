import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { afterEach, before, beforeEach, test } from 'node:test'
import { quietNode } from '../kit/lab/browser.ts'
import { DevTools, targets } from '../kit/lab/devtools.ts'
import { guardBrowser } from '../kit/lab/egress.ts'
import { addresses, answers, invocation } from '../kit/lab/relay.ts'
import { browser, cursor, ok, said, sh, titles, until, untilTitled } from '../kit/lab.ts'

// What people and agents do with a browser, over its relay, in the unit as it is installed: its own /etc, its flags
// and its limits must take none of it away.
const NODE = 'muse'
const UNIT = `chromebox@${NODE}.service`
const SITE = 'http://127.0.0.1:8080/'

let page: DevTools
before(() => quietNode(NODE))
// The chat page as its site sends it, whatever the test before made of it.
beforeEach(async () => {
  page = await DevTools.ofPage(NODE)
  await page.call('Page.enable')
  await page.call('Page.navigate', { url: SITE })
  await page.event('Page.loadEventFired')
})
afterEach(() => page.close())

const restart = async (): Promise<void> => {
  page.close()
  ok(['systemctl', 'restart', UNIT])
  await untilTitled(NODE)
  page = await DevTools.ofPage(NODE)
}

test('titles: the page that was asked for, and nothing of the browser’s own beside it', async () => {
  assert.deepEqual(
    targets(NODE).map(({ type, title }) => [type, title]),
    [['page', 'Chat']],
  )
  await page.value("document.title = 'Chat (2)'")
  await until('the new title', () => titles(NODE)?.includes('Chat (2)'))
})

test('a dialog opens, is seen, and is answered', async () => {
  await page.value("setTimeout(() => { document.title = confirm('hello') ? 'Chat yes' : 'Chat no' }, 0); 1")
  const { message, type } = await page.event('Page.javascriptDialogOpening')
  assert.deepEqual([type, message], ['confirm', 'hello'])
  await page.call('Page.handleJavaScriptDialog', { accept: true })
  await until('its answer', () => titles(NODE)?.includes('Chat yes'))
})

test('a screenshot shows the page', async () => {
  await page.value("document.body.style.background = 'rgb(12, 200, 34)'; document.body.innerHTML = ''")
  const { data } = await page.call('Page.captureScreenshot', { format: 'png' })
  // The page itself reads the picture: its middle has the colour that was painted.
  const middle = await page.value(`(async () => {
    const image = await createImageBitmap(await (await fetch('data:image/png;base64,${data}')).blob())
    const canvas = new OffscreenCanvas(image.width, image.height)
    const context = canvas.getContext('2d')
    context.drawImage(image, 0, 0)
    return [...context.getImageData(image.width >> 1, image.height >> 1, 1, 1).data].join()
  })()`)
  assert.equal(middle, '12,200,34,255')
})

test('a download arrives whole in the profile', async () => {
  const dir = `/var/lib/chromebox/${NODE}/downloads`
  const text = 'what was asked for\n'.repeat(50_000)
  const behaviour = { behavior: 'allow', downloadPath: dir, eventsEnabled: true }
  await page.call('Browser.setDownloadBehavior', behaviour)
  await page.value(`
    const link = document.createElement('a')
    link.href = URL.createObjectURL(new Blob(['what was asked for\\n'.repeat(50_000)]))
    link.download = 'report.txt'
    link.click()`)
  await page.event('Browser.downloadProgress', ({ state }) => state === 'completed')
  assert.equal(readFileSync(`${dir}/report.txt`, 'utf8'), text)
  rmSync(dir, { recursive: true })
})

test('cookies outlast a restart of the unit, also the one that was set just before', async () => {
  const from = cursor()
  const value = `${process.pid}`
  await page.value(`document.cookie = 'login=${value}; max-age=86400; SameSite=Lax'`)
  await restart()
  assert.match(String(await page.value('document.cookie')), new RegExp(`(^|; )login=${value}(;|$)`))
  // Its ExecStop= runs in the same /etc, and asked the browser to close.
  assert.doesNotMatch(said(from, UNIT), /not closed over DevTools/)
})

test('a WebSocket of the page carries messages both ways', async () => {
  const echo = `
    const { WebSocketServer } = require('ws')
    new WebSocketServer({ host: '127.0.0.1', port: 8181 }).on('connection', (socket) =>
      socket.on('message', (data, binary) => socket.send(data, { binary })))`
  const server = spawn('ip', ['netns', 'exec', `warp-${NODE}`, 'node', '-e', echo], { stdio: 'inherit' })
  try {
    const listens = () =>
      sh(['ip', 'netns', 'exec', `warp-${NODE}`, 'ss', '-Hltn']).stdout.includes('127.0.0.1:8181')
    await until('the server listens', listens)
    const length = await page.value(`new Promise((resolve, reject) => {
      const socket = new WebSocket('ws://127.0.0.1:8181/')
      socket.onopen = () => socket.send('x'.repeat(1 << 20))
      socket.onmessage = ({ data }) => resolve(data.length)
      socket.onerror = () => reject(new Error('the socket failed'))
    })`)
    assert.equal(length, 1 << 20)
  } finally {
    server.kill('SIGKILL')
  }
})

test('fonts: each family is the one that the host’s fontconfig names', async () => {
  const families = ['serif', 'sans-serif', 'monospace']
  await page.value(
    `document.body.innerHTML = '${families.map((f) => `<p style="font-family:${f}">Wi</p>`).join('')}'`,
  )
  await page.call('DOM.enable')
  await page.call('CSS.enable')
  const { root } = (await page.call('DOM.getDocument')) as { root: { nodeId: number } }
  const found = await page.call('DOM.querySelectorAll', { nodeId: root.nodeId, selector: 'p' })
  const used: string[] = []
  for (const nodeId of found.nodeIds as number[]) {
    // Empty until the text is laid out.
    const family = async () => {
      const { fonts } = await page.call('CSS.getPlatformFontsForNode', { nodeId })
      return (fonts as { familyName: string }[])[0]?.familyName
    }
    used.push(await until('a font', family))
  }
  // What Chromium asks fontconfig for in place of the generic names.
  const asked = ['Times New Roman', 'Arial', 'Monospace']
  const known = ok(['fc-list', ':', 'family'])
  for (const family of used) assert.ok(known.includes(family), `${family} is installed`)
  assert.deepEqual(
    used,
    asked.map((family) => ok(['fc-match', '-f', '%{family[0]}', family])),
  )
})

test('the time zone is the host’s, by its name', async (t) => {
  const zone = readlinkSync('/etc/localtime')
  const point = (target: string) => {
    rmSync('/etc/localtime')
    symlinkSync(target, '/etc/localtime')
  }
  t.after(() => point(zone))
  for (const name of ['Europe/Berlin', 'America/New_York', 'Etc/UTC']) {
    point(`/usr/share/zoneinfo/${name}`)
    await restart()
    const seen = await page.value('Intl.DateTimeFormat().resolvedOptions().timeZone')
    assert.equal(seen, name === 'Etc/UTC' ? 'UTC' : name)
  }
})

test('its /etc holds what it needs and not what is the host’s alone', () => {
  const names = ok(['nsenter', '-t', String(browser(NODE)?.pid), '-m', 'ls', '/etc']).split('\n')
  for (const name of ['passwd', 'resolv.conf', 'ssl', 'fonts']) assert.ok(names.includes(name), name)
  for (const name of ['netvm', 'netns', 'shadow', 'systemd']) {
    assert.ok(existsSync(`/etc/${name}`), name)
    assert.ok(!names.includes(name), name)
  }
})

/** The renderer with the most memory, as the kernel chooses. */
function largestRenderer(): number {
  const pids = ok(['pgrep', '-u', 'chromebox', '-f', '--', '--type=renderer']).split('\n')
  const rss = (pid: string) =>
    Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
  return Number(pids.toSorted((a, b) => rss(b) - rss(a))[0])
}

test('one renderer killed, as the kernel does out of memory, ends no browser; the page comes back', async () => {
  assert.equal(ok(['systemctl', 'show', '-p', 'OOMPolicy', '--value', UNIT]), 'continue')
  const same = guardBrowser(NODE)
  await page.call('Inspector.enable')
  // The chat page's, and not the one that Chromium keeps spare.
  await page.value('globalThis.held = new Uint8Array(200e6).fill(1); 1')
  process.kill(largestRenderer(), 'SIGKILL')
  await page.event('Inspector.targetCrashed')
  assert.equal(ok(['systemctl', 'is-active', UNIT]), 'active')
  same()
  // The same browser shows it again.
  await page.call('Page.navigate', { url: SITE })
  page.close()
  page = await DevTools.ofPage(NODE)
  assert.equal(await page.value('document.title'), 'Chat')
  same()
})

test('its limit of descriptors is the one that is written down', () => {
  const limits = readFileSync(`/proc/${browser(NODE)?.pid}/limits`, 'utf8')
  assert.match(limits, /^Max open files\s+8192\s+8192\s/m)
})

test('a relay serves 256 connections; the next are closed at once, and no session is cut', async () => {
  const unit = `cdp-relay@${NODE}.service`
  const relay = invocation(unit)
  const from = cursor()
  const pid = ok(['systemctl', 'show', '-p', 'MainPID', '--value', unit])
  const short = () => /Too many open files/.test(said(from, unit))
  const { peer, port } = addresses(NODE)
  const sockets: Socket[] = []
  const closed = new Set<Socket>()
  const dial = () =>
    new Promise<void>((resolve) => {
      const socket = connect({ host: peer, port }, () => resolve())
      sockets.push(socket)
      socket.on('error', () => {})
      socket.on('close', () => closed.add(socket))
      socket.resume()
    })
  try {
    // The session of this test is one more. A connection has all of its descriptors when the browser has taken it.
    for (let i = 0; i < 240; i++) await dial()
    await until('the pipes of each', () => readdirSync(`/proc/${pid}/fd`).length >= 6 * 240 || short())
    assert.equal(short(), false)
    assert.ok(answers(NODE), 'the 242nd')
    assert.equal(closed.size, 0)
    for (let i = 0; i < 60; i++) await dial()
    await until('those beyond the limit are closed', () => closed.size >= 43)
    assert.ok(closed.size <= 45, `${closed.size} closed`)
    assert.equal(sockets.slice(0, 240).filter((socket) => closed.has(socket)).length, 0)
    assert.equal(answers(NODE), false, 'full')
    assert.equal(await page.value('6 * 7'), 42)
  } finally {
    for (const socket of sockets) socket.destroy()
  }
  await until('it serves again', () => answers(NODE))
  assert.equal(invocation(unit), relay)
  assert.equal(short(), false)
})
