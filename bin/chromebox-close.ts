import { reportAndExit, UsageError } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { clean } from '../lib/base/text.ts'
import { closeBrowser } from '../lib/browser/close.ts'
import { examples } from '../lib/cli/examples.ts'

// chromebox-close <port> [<main pid>]: ExecStop= of chromebox@.service; what follows is TERM, then KILL.
// Without a pid the browser ended by itself, and there is nobody to ask.
if (/^(-h|--help)$/.test(process.argv[2] ?? '')) {
  console.log(`usage: chromebox-close <port> [<main pid>]\n${examples('chromebox-close')}`)
  process.exit(0)
}
const args = process.argv.slice(2)
const number = (word: string, least: number, most: number) =>
  /^\d{1,9}$/.test(word) && Number(word) >= least && Number(word) <= most ? Number(word) : undefined
const port = number(args[0] ?? '', 1, 65_535)
// The kernel's highest pid is 2^22; pid 1 is no browser.
const pid = args[1] === undefined ? undefined : number(args[1], 2, 4_194_304)
if (port === undefined || (pid === undefined && args.length > 1) || args.length > 2) {
  const typed = args.length === 0 ? 'nothing' : `"${clean(args.join(' '), 60)}"`
  reportAndExit(new UsageError(`give a port and a main pid, not ${typed}`), 'chromebox-close')
}
if (pid !== undefined) {
  closeBrowser(paths().proc, pid, port).then(
    (why) => {
      if (why !== undefined) console.log(`not closed over DevTools: ${why}; TERM follows`)
    },
    (error) => reportAndExit(error, 'chromebox-close'),
  )
}
