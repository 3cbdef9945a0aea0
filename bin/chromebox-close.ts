import { closeBrowser } from '../lib/browser/close.ts'
import { reportAndExit, UsageError } from '../lib/errors.ts'
import { examples } from '../lib/examples.ts'
import { paths } from '../lib/paths.ts'

// chromebox-close <port> [<main pid>]: ExecStop= of chromebox@.service; what follows is TERM, then KILL.
// Without a pid the browser ended by itself, and there is nobody to ask.
if (/^(-h|--help)$/.test(process.argv[2] ?? '')) {
  console.log(`usage: chromebox-close <port> [<main pid>]\n${examples('chromebox-close')}`)
  process.exit(0)
}
const [port = 0, pid, ...more] = process.argv.slice(2).map(Number)
if (!(port > 0 && port < 65536) || (pid !== undefined && !(pid > 1)) || more.length > 0) {
  reportAndExit(
    new UsageError('give a port and a main pid', 'systemctl stop chromebox@NODE'),
    'chromebox-close',
  )
}
if (pid !== undefined) {
  closeBrowser(paths().proc, pid, port).then(
    (why) => {
      if (why !== undefined) console.log(`not closed over DevTools: ${why}; TERM follows`)
    },
    (error) => reportAndExit(error, 'chromebox-close'),
  )
}
