import { main } from '../lib/cli/main.ts'
import { ensureCommand } from '../lib/ensure/command.ts'

// ensure-node-supervision <node> | --all | --check: supervision as the registry says, and nothing else.
main('ensure-node-supervision', ensureCommand)
