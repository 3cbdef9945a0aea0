// Stands in for Chromium where a test needs many nodes and no pages: answers on the DevTools port as a browser
// with one page, and is found as the browser of its profile by its arguments.
//   node stub-browser.mjs --user-data-dir=DIR --remote-debugging-port=PORT
import { createServer } from 'node:http'

const port = Number(process.argv.find((arg) => arg.startsWith('--remote-debugging-port='))?.split('=')[1])
const ws = `ws://127.0.0.1:${port}/devtools`
const page = { id: 'P', type: 'page', title: 'Chat', url: 'http://site.lab/', webSocketDebuggerUrl: `${ws}/page/P` }

createServer((request, response) => {
  response.setHeader('content-type', 'application/json')
  if (request.url?.startsWith('/json/version')) {
    const version = { Browser: 'Chrome/156.0.0.0', 'Protocol-Version': '1.3', webSocketDebuggerUrl: `${ws}/browser/B` }
    response.end(JSON.stringify(version))
  } else if (request.url?.startsWith('/json')) response.end(JSON.stringify([page]))
  else response.writeHead(404).end()
}).listen(port, '127.0.0.1')
process.on('SIGTERM', () => process.exit(0))
