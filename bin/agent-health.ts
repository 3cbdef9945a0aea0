import { main } from '../lib/cli/main.ts'
import { agentHealthCommand } from '../lib/supervisors/agent-health/command.ts'

// agent-health [node...] | status | reset <node>: the API of every active node, in one run.
main('agent-health', agentHealthCommand)
