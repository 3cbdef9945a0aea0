import { main } from '../lib/cli/main.ts'
import { downCommand } from '../lib/node/command.ts'

// netvm-node-down <node>: the node's row retired, and nothing of it left running.
main('netvm-node-down', downCommand)
