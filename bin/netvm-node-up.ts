import { main } from '../lib/cli/main.ts'
import { upCommand } from '../lib/node/command.ts'

// netvm-node-up <node> [--title T] [--url U] [--port P] [--api A]: a node, up and watched.
main('netvm-node-up', upCommand)
