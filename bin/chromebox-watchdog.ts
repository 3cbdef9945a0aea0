import { reportAndExit } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { chromeboxWatchdogCommand } from '../lib/supervisors/chromebox-watchdog/command.ts'

// chromebox-watchdog <node> | release <node>: one look at a node's browser, and its repair.
chromeboxWatchdogCommand(paths(), process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (err: unknown) => reportAndExit(err, 'chromebox-watchdog'),
)
