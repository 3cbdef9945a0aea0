// A chat site whose page and API are switched by a control file that every request reads.
//   node site-server.mjs <control file> [port] [address]
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const [file, port = '8080', address = '127.0.0.1'] = process.argv.slice(2)

function control() {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return {}
  }
}

function page(title, script = '') {
  return `<!doctype html><meta charset=utf-8><title>${title}</title><h1>${title}</h1><script>${script}</script>`
}

createServer((request, response) => {
  const { title = 'Chat', api = {} } = control()
  const asked = performance.now()
  // A delay lasts as long as the file says so: a test ends it when it has seen what it waited for.
  const html = (text) => {
    if (performance.now() - asked < (control().delayMs ?? 0)) return setTimeout(() => html(text), 50)
    response.setHeader('content-type', 'text/html; charset=utf-8')
    response.end(text)
  }
  const path = new URL(request.url, 'http://site').pathname
  if (path.startsWith('/api')) {
    if (api.never) return
    setTimeout(() => {
      // Not for what it leads to: `/api/health/` answers.
      if (api.redirect && path === '/api/health') return response.writeHead(302, { location: api.redirect }).end()
      response.statusCode = api.status ?? 200
      response.setHeader('content-type', 'application/json')
      response.end(response.statusCode === 204 ? undefined : '{"ok":true}')
    }, api.delayMs ?? 0)
  } else if (path === '/loop') html(page(title, 'setTimeout(() => { while (1); }, 300)'))
  else if (path === '/dialog') html(page(title, 'setTimeout(() => alert("hello"), 300)'))
  else if (path === '/elsewhere') html(page('Somewhere else'))
  else if (path === '/favicon.ico') response.writeHead(204).end()
  else html(page(title))
}).listen(Number(port), address)
