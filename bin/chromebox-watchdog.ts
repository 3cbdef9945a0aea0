import { main } from '../lib/cli/main.ts'
import { chromeboxWatchdogCommand } from '../lib/supervisors/chromebox-watchdog/command.ts'

// chromebox-watchdog <node> | release <node>: one look at a node's browser, and its repair.
main('chromebox-watchdog', chromeboxWatchdogCommand)
