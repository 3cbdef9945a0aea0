import { reportAndExit } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { downCommand } from '../lib/node/cli.ts'

// netvm-node-down <node>: the node's row retired, and nothing of it left running.
downCommand(paths(), process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (error) => reportAndExit(error, 'netvm-node-down'),
)
