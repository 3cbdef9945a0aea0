import { reportAndExit } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { topologyCommand } from '../lib/topology/command.ts'

// netvm-topology [--json]: the fleet as it is, and what does not belong.
topologyCommand(paths(), process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (error) => reportAndExit(error, 'netvm-topology'),
)
