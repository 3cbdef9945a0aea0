// Answers like a browser's DevTools port. Arguments: profile option, profile, port, title, how it behaves.
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'

const [, , , profile, port, title, mode] = process.argv
if (mode === 'dies') process.exit(21)
if (mode === 'ends') setTimeout(() => process.exit(21), 300)
// A page has its title only a moment after the port answers.
const titledAt = mode === 'late' ? Date.now() + 800 : 0
const server = createServer((req, res) => {
  if (mode === 'silent') return
  const at = `ws://127.0.0.1:${port}/devtools`
  const answer =
    req.url === '/json/version'
      ? { Browser: 'Fake/1', webSocketDebuggerUrl: `${at}/browser/1` }
      : [{ id: '1', type: 'page', title: Date.now() < titledAt ? 'Loading' : title, url: 'http://x/', webSocketDebuggerUrl: `${at}/page/1` }]
  res.end(JSON.stringify(answer))
})
if (mode === 'deaf') setInterval(() => {}, 1000)
else server.listen(Number(port), '127.0.0.1', () => writeFileSync(`${profile}/ready`, 'yes'))
