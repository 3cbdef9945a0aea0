import { closeCommand } from '../lib/browser/close-command.ts'
import { main } from '../lib/cli/main.ts'

// chromebox-close <port> [<main pid>]: ExecStop= of chromebox@.service; what follows is TERM, then KILL.
main('chromebox-close', closeCommand)
