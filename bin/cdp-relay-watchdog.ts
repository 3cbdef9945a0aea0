import { main } from '../lib/cli/main.ts'
import { relayWatchdogCommand } from '../lib/supervisors/cdp-relay-watchdog/command.ts'

// cdp-relay-watchdog [--dry-run] [--json] [node...]: the relays of every active node, in one run.
main('cdp-relay-watchdog', relayWatchdogCommand)
