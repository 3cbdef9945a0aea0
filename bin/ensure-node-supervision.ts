import { reportAndExit } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { ensureCommand } from '../lib/ensure/cli.ts'

// ensure-node-supervision <node> | --all | --check: supervision as the registry says, and nothing else.
ensureCommand(paths(), process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (error) => reportAndExit(error, 'ensure-node-supervision'),
)
