import { reportAndExit } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { upCommand } from '../lib/node/cli.ts'

// netvm-node-up <node> [--title T] [--url U] [--port P] [--api A]: a node, up and watched.
upCommand(paths(), process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (error) => reportAndExit(error, 'netvm-node-up'),
)
