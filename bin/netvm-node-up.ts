import { reportAndExit } from '../lib/errors.ts'
import { upCommand } from '../lib/node/cli.ts'
import { paths } from '../lib/paths.ts'

// netvm-node-up <node> [--title T] [--url U] [--port P] [--api A]: a node, up and watched.
upCommand(paths(), process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (error) => reportAndExit(error, 'netvm-node-up'),
)
