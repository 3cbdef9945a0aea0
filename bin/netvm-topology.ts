import { main } from '../lib/cli/main.ts'
import { topologyCommand } from '../lib/topology/command.ts'

// netvm-topology [--json]: the fleet as it is, and what does not belong.
main('netvm-topology', topologyCommand)
