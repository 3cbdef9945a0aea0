/** One peer of an interface, as `wg show <if> dump` prints it. Keys that are secret are not kept. */
export interface WgPeer {
  readonly publicKey: string
  /** `ip:port` or `[ip6]:port`; absent when the peer has none. */
  readonly endpoint?: string
  readonly allowedIps: readonly string[]
  /** Wall-clock milliseconds of the last handshake; 0 when there never was one. */
  readonly latestHandshakeMs: number
  readonly rxBytes: number
  readonly txBytes: number
}

export interface WgDump {
  readonly listenPort: number
  readonly peers: readonly WgPeer[]
}

/**
 * Reads the output of `wg show <if> dump` (tab separated: one line for the interface, one for each peer).
 * The private key and the preshared keys are dropped here, so that nothing downstream can print them.
 * Throws an Error that names the line and never its content.
 */
export function parseWgDump(text: string): WgDump {
  const lines = text.split('\n').filter((line) => line !== '')
  const head = lines[0]?.split('\t')
  if (head === undefined || head.length !== 4) throw new Error('wg dump: line 1 is not an interface')
  const listenPort = count(head[2], 1)
  const peers = lines.slice(1).map((line, i): WgPeer => {
    const cells = line.split('\t')
    const at = i + 2
    if (cells.length !== 8) throw new Error(`wg dump: line ${at} is not a peer`)
    const [publicKey, , endpoint, allowed, handshake, rx, tx] = cells
    return {
      publicKey: publicKey ?? '',
      ...(endpoint === '(none)' || endpoint === undefined ? {} : { endpoint }),
      allowedIps: allowed === '(none)' || allowed === undefined ? [] : allowed.split(','),
      latestHandshakeMs: count(handshake, at) * 1000,
      rxBytes: count(rx, at),
      txBytes: count(tx, at),
    }
  })
  return { listenPort, peers }
}

function count(cell: string | undefined, line: number): number {
  if (cell === undefined || !/^\d{1,20}$/.test(cell))
    throw new Error(`wg dump: line ${line} has a bad number`)
  return Number(cell)
}
