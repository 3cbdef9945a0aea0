import { main } from '../lib/cli/main.ts'
import { evidenceCommand } from '../lib/evidence/command.ts'

// host-evidence [node...] [--json]: what the host knows of its nodes, and how.
main('host-evidence', evidenceCommand)
