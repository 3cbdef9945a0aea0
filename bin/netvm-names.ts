import { reportAndExit } from '../lib/errors.ts'
import { namesCommand } from '../lib/node/cli.ts'
import { paths } from '../lib/paths.ts'

// netvm-names <node>: KEY=value lines for `eval`.
namesCommand(paths(), process.argv.slice(2)).then(
  (lines) => {
    for (const line of lines) console.log(line)
  },
  (error) => reportAndExit(error, 'netvm-names'),
)
