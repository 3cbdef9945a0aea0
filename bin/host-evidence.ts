import { reportAndExit } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { evidenceCommand } from '../lib/evidence/command.ts'

// host-evidence [node…] [--json]: what the host knows of its nodes, and how.
evidenceCommand(paths(), process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (error) => reportAndExit(error, 'host-evidence'),
)
