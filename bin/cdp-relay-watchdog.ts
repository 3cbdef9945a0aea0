import { reportAndExit } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { relayWatchdogCommand } from '../lib/supervisors/cdp-relay-watchdog/command.ts'

// cdp-relay-watchdog [--dry-run] [--json] [node…]: the relays of every active node, in one run.
relayWatchdogCommand(paths(), process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (error) => reportAndExit(error, 'cdp-relay-watchdog'),
)
