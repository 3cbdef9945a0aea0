import { reportAndExit } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { queueCommand } from '../lib/queue/command.ts'

// cdp-queue run <node> -- CMD… | depth [<node>]: at most two CDP operations at a time per browser.
queueCommand(paths(), process.argv.slice(2)).then(
  (status) => {
    process.exitCode = status
  },
  (err) => reportAndExit(err, 'cdp-queue'),
)
