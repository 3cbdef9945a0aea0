import { reportAndExit } from '../lib/errors.ts'
import { evidenceCommand } from '../lib/evidence/command.ts'
import { paths } from '../lib/paths.ts'

// host-evidence [node…] [--json]: what the host knows of its nodes, and how.
evidenceCommand(paths(), process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (error) => reportAndExit(error, 'host-evidence'),
)
