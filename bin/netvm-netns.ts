import { reportAndExit } from '../lib/base/errors.ts'
import { paths } from '../lib/base/paths.ts'
import { netnsCommand } from '../lib/netns/command.ts'

// netvm-netns up|down <node>: the network namespace of a node, by what is really there.
netnsCommand(paths(), process.argv.slice(2)).then(
  (lines) => {
    for (const line of lines) console.log(line)
  },
  (error) => reportAndExit(error, 'netvm-netns'),
)
