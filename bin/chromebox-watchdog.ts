import { main } from '../lib/cli/main.ts'
import { main as watchdog } from '../lib/supervisors/chromebox-watchdog/main.ts'

// chromebox-watchdog <node> | release <node>: one look at a node's browser, and its repair.
main('chromebox-watchdog', (_, argv) => watchdog(argv))
