import { main } from '../lib/cli/main.ts'
import { netnsCommand } from '../lib/netns/command.ts'

// netvm-netns up|down <node>: the network namespace of a node, by what is really there.
main('netvm-netns', netnsCommand)
