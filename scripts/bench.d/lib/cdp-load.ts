import WebSocket from 'ws'
import { httpGet } from '../../../lib/host/http.ts'

// `cdp-load.ts <host> <port>`: asks a browser there, and prints { requestsPerS, mbPerS, shotMB } as JSON.

const [host = '', portText = ''] = process.argv.slice(2)
const port = Number(portText)
const REQUESTS = 600
const AT_ONCE = 8
const SHOTS = 8
/** Random pixels do not compress: what the browser makes is what the relay must carry. */
const NOISE = `<body style="margin:0"><canvas id=c width=1600 height=1200></canvas><script>
const x=c.getContext('2d'),i=x.createImageData(1600,1200);
for(let o=0;o<i.data.length;o+=65536)crypto.getRandomValues(new Uint8Array(i.data.buffer,o,Math.min(65536,i.data.length-o)));
for(let a=3;a<i.data.length;a+=4)i.data[a]=255;x.putImageData(i,0,0);document.title='noise'</script>`

async function get(path: string): Promise<string> {
  const answer = await httpGet({ host, port, path, deadlineMs: 10_000 })
  if (answer.kind !== 'answer' || answer.status !== 200) throw new Error(`${path}: ${JSON.stringify(answer)}`)
  return answer.body
}

async function requests(): Promise<number> {
  const started = performance.now()
  let left = REQUESTS
  const worker = async () => {
    while (left-- > 0) await get('/json/version')
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return (REQUESTS * 1000) / (performance.now() - started)
}

/** One DevTools connection: commands in, results out. */
async function connect(): Promise<{
  call: (method: string, params?: object, session?: string) => Promise<Record<string, string>>
  close: () => void
}> {
  const { webSocketDebuggerUrl } = JSON.parse(await get('/json/version')) as { webSocketDebuggerUrl: string }
  const socket = new WebSocket(`ws://${host}:${port}${new URL(webSocketDebuggerUrl).pathname}`, {
    perMessageDeflate: false,
    maxPayload: 256 << 20,
  })
  await new Promise((resolve, reject) => {
    socket.once('open', resolve)
    socket.once('error', reject)
  })
  const waiting = new Map<number, (result: Record<string, string>) => void>()
  socket.on('message', (data) => {
    const { id, result, error } = JSON.parse(data.toString())
    if (error !== undefined) throw new Error(JSON.stringify(error))
    waiting.get(id)?.(result)
  })
  let next = 0
  return {
    call: (method, params = {}, sessionId) =>
      new Promise((resolve) => {
        const id = ++next
        waiting.set(id, resolve)
        socket.send(JSON.stringify({ id, method, params, ...(sessionId === undefined ? {} : { sessionId }) }))
      }),
    close: () => socket.close(),
  }
}

async function screenshots(): Promise<{ mbPerS: number; shotMB: number }> {
  const { call, close } = await connect()
  const { targetId } = await call('Target.createTarget', {
    url: `data:text/html,${encodeURIComponent(NOISE)}`,
  })
  const { sessionId } = await call('Target.attachToTarget', { targetId, flatten: true })
  const shoot = async () =>
    (
      (
        await call(
          'Page.captureScreenshot',
          {
            format: 'png',
            optimizeForSpeed: true,
            captureBeyondViewport: true,
            clip: { x: 0, y: 0, width: 1600, height: 1200, scale: 1 },
          },
          sessionId,
        )
      ).data ?? ''
    ).length
  // The first ones may be of a page that is still white.
  while ((await shoot()) < 4_000_000) await new Promise((resolve) => setTimeout(resolve, 50))
  const started = performance.now()
  let bytes = 0
  for (let i = 0; i < SHOTS; i++) bytes += await shoot()
  const s = (performance.now() - started) / 1000
  await call('Target.closeTarget', { targetId })
  close()
  return { mbPerS: bytes / 1e6 / s, shotMB: bytes / 1e6 / SHOTS }
}

const requestsPerS = await requests()
process.stdout.write(JSON.stringify({ requestsPerS, ...(await screenshots()) }))
