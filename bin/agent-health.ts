import { reportAndExit } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { agentHealthCommand } from '../lib/supervisors/agent-health/command.ts'

// agent-health [node…] | status | reset <node>: the API of every active node, in one run.
agentHealthCommand(paths(), process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (err) => reportAndExit(err, 'agent-health'),
)
