import { ensureCommand } from '../lib/ensure/cli.ts'
import { reportAndExit } from '../lib/errors.ts'
import { paths } from '../lib/paths.ts'

// ensure-node-supervision <node> | --all | --check: supervision as the registry says, and nothing else.
ensureCommand(paths(), process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (error) => reportAndExit(error, 'ensure-node-supervision'),
)
