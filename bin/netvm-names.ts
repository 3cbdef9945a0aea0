import { main } from '../lib/cli/main.ts'
import { namesCommand } from '../lib/node/command.ts'

// netvm-names <node>: KEY=value lines for `eval`.
main('netvm-names', namesCommand)
