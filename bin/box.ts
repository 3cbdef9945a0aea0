import { boxCommand } from '../lib/box/command.ts'
import { main } from '../lib/cli/main.ts'

// box fleet status | approvals check | node pause|resume|history: see --help.
main('box', boxCommand)
