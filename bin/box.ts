import { reportAndExit } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { boxCommand } from '../lib/box/command.ts'

// box fleet status | approvals check | node pause|resume|history: see --help.
boxCommand(paths(), process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (error) => reportAndExit(error, 'box'),
)
