import { main } from '../lib/cli/main.ts'
import { queueCommand } from '../lib/queue/command.ts'

// cdp-queue run <node> -- CMD... | depth [<node>]: at most two CDP operations at a time per browser.
main('cdp-queue', queueCommand)
