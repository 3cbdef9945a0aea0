import { reportAndExit } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { tunnelCommand } from '../lib/tunnel/command.ts'

// netvm-tunnel up|down <node>: the WireGuard interface of a node, inside its namespace.
tunnelCommand(paths(), process.argv.slice(2)).then(
  (lines) => {
    for (const line of lines) console.log(line)
  },
  (error) => reportAndExit(error, 'netvm-tunnel'),
)
