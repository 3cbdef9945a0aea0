import { main } from '../lib/cli/main.ts'
import { tunnelCommand } from '../lib/tunnel/command.ts'

// netvm-tunnel up|down <node>: the WireGuard interface of a node, inside its namespace.
main('netvm-tunnel', tunnelCommand)
