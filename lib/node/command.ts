import { attempt } from '../base/attempt.ts'
import { loadConfig } from '../base/config.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import { requireRoot } from '../cli/cli.ts'
import type { Described } from '../cli/help.ts'
import { program } from '../cli/program.ts'
import { checkRowOptions, parsePort } from '../ensure/row.ts'
import { assertNodeName, deriveNames } from '../registry/names.ts'
import { readRegistry } from '../registry/read.ts'

/** One line of progress; parts are words like `netns`, `browser`, `relay`. */
function say(part: string, text: string): void {
  console.log(`${part}: ${clean(text, 400)}`)
}

export async function upCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const command = await program(
    'netvm-node-up',
    'Makes a node: row, settings, network, browser, relay, timers.',
  )
  command
    .argument('<node>', 'name of the node')
    .option('--title <text>', 'text that the title of the chat page holds')
    .option('--url <url>', 'the chat page')
    .option(
      '--port <port>',
      'DevTools port of a new row (default: CDP_PORT_OVERRIDE, or derived from the name)',
    )
    .option('--api <check>', 'path or URL that the API check fetches')
  command.parse(argv, { from: 'user' })
  const name = assertNodeName(command.args[0] ?? '')
  const { title, url, api, port } = command.opts<Record<string, string | undefined>>()
  const row = { title, url, api, port: port === undefined ? undefined : parsePort(port, '--port') }
  checkRowOptions(row)
  requireRoot('netvm-node-up')
  const config = loadConfig(p)
  const { nodeUp } = await import('./up.ts')
  return nodeUp({ p, config, say }, name, row)
}

export async function downCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const about = 'Takes a node down and retires its row; keeps its profile.'
  const name = await oneNode('netvm-node-down', about, argv)
  requireRoot('netvm-node-down')
  const { nodeDown } = await import('./down.ts')
  return nodeDown({ p, config: loadConfig(p), say }, name)
}

/**
 * `netvm-names`: names and addresses of a node in lines that are safe to `eval`: every value is made of
 * letters, digits, dots, slashes and dashes. What a row pins wins over what the name gives.
 */
export async function namesCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const node = await oneNode('netvm-names', 'Prints the names and addresses of a node, safe to eval.', argv)
  const names = deriveNames(node)
  // A name has names without a registry that can be read.
  const row = attempt(() => readRegistry(p, loadConfig(p)).nodes.find((n) => n.name === node))
  const dot = (row?.gw ?? '').lastIndexOf('.')
  const sub = row && `${row.gw.slice(0, dot)}.${Number(row.gw.slice(dot + 1)) & ~3}/30`
  const values = {
    NETNS: names.netns,
    WG: names.wg,
    VETH: names.veth,
    VPEER: names.vpeer,
    SUB: sub ?? names.sub,
    GW: row?.gw ?? names.gw,
    PEER_IP: row?.peer ?? names.peer,
    CDP_PORT: row?.cdpPort ?? names.port,
  }
  for (const [key, value] of Object.entries(values)) console.log(`${key}=${value}`)
  return EXIT.OK
}

/** The argument of a program that takes one node and no option. @throws UsageError */
async function oneNode(name: Described, about: string, argv: readonly string[]): Promise<string> {
  const command = (await program(name, about)).argument('<node>', 'name of the node')
  return assertNodeName(command.parse(argv, { from: 'user' }).args[0] ?? '')
}
