import { reportAndExit } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { namesCommand } from '../lib/node/cli.ts'

// netvm-names <node>: KEY=value lines for `eval`.
namesCommand(paths(), process.argv.slice(2)).then(
  (lines) => {
    for (const line of lines) console.log(line)
  },
  (error) => reportAndExit(error, 'netvm-names'),
)
